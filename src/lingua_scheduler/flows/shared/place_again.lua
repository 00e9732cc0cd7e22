-- The job's next attempt, on a node that has not had it while another has room; else it waits for the next look.
-- include: groups_for, choose, reserve, post
local function place_again(job_id, job, ticket, now, rules)
  local avoid, named = {}, {}
  for _, attempt in ipairs(job[JOB.past][PAST.attempts]) do
    if not named[attempt[2]] then
      named[attempt[2]] = true
      avoid[#avoid + 1] = attempt[2]
    end
  end
  local groups = groups_for(ticket[TICKET.pair], ticket[TICKET.fallback])
  local node_id, node
  if #groups > 0 then
    node_id, node = choose(groups, job, avoid)
  end
  if node_id then
    reserve(job_id, job, node_id, node, ticket[TICKET.ack_ms], now)
    post("reserved", job_id, job[JOB.attempt], node_id, job[JOB.epoch], "", now)
    return
  end
  if job[JOB.state] ~= "RETRYING" then
    job[JOB.state] = "RETRYING"
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  end
  redis.call("ZADD", KEY.due, math.min(now + rules[RULE.retry_poll_ms], job[JOB.deadline_at_ms]), "j:" .. job_id)
end
