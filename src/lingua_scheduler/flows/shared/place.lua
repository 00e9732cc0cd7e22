-- Give a job without a node its next attempt, on a node that has not had it while another has room. Says whether there
-- was one; if not, what stood against its wishes is kept. A number that was passed over is written down in the note on
-- the last attempt, for those who ask again.
-- include: had_by, groups_for, choose, assign, past_of
local function place(job_id, job, ticket, entry, now)
  local had, owed, seed, groups, is_owed = had_by(job), {}, job[JOB.seed], groups_for(ticket, 0), nil
  local node_id, node, choice, reasons
  -- A node that has not yet served all who wait for it is theirs. More than so many are not asked.
  for _ = 1, 64 do
    node_id, node, choice, reasons = choose(groups, job, ticket, had, owed, now)
    is_owed = node_id and redis.call("ZSCORE", KEY.due, "r:" .. node_id)
    if not is_owed then
      break
    end
    owed[#owed + 1] = node_id
  end
  if not node_id or is_owed then
    job[JOB.seed] = seed
    past_of(job)[PAST.reasons] = reasons
    return false
  end
  if job[JOB.state] == "RETRYING" or job[JOB.state] == "WAITING" then
    table.insert(reasons, 1, "waited")
  end
  assign(job_id, job, node_id, node, choice, reasons, ticket, entry, now)
  return true
end
