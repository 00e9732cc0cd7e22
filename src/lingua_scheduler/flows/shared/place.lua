-- Give a job without a node its next attempt, on a node that has not had it while another has room. Says whether there
-- was one. A number that was passed over is written down in the note on the last attempt, for those who ask again.
-- include: groups_for, choose, assign, tally
local function place(job_id, job, ticket, entry, now)
  local groups = groups_for(ticket[TICKET.pair], ticket[TICKET.fallback])
  if #groups == 0 then
    return false
  end
  local avoid, named = {}, {}
  for _, attempt in ipairs(job[JOB.past][PAST.attempts]) do
    local had = attempt[PAST_ATTEMPT.node]
    if not named[had] then
      named[had] = true
      avoid[#avoid + 1] = had
    end
  end
  local seed = job[JOB.seed]
  local node_id, node = choose(groups, job, avoid)
  -- A node that has not yet served all who wait for it is theirs.
  if not node_id or redis.call("ZSCORE", KEY.due, "r:" .. node_id) then
    job[JOB.seed] = seed
    return false
  end
  assign(job_id, job, node_id, node, ticket, entry, now)
  tally("attempt.again", 1)
  return true
end
