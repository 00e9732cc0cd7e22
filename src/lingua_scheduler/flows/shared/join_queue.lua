-- A job without a node waits for the flow that frees one. A need with a fallback is looked at by the clock as well:
-- when the last node of its own pair dies, no slot comes free that could wake it.
-- include: queue_entry
local function join_queue(job_id, job, ticket, now, rules)
  local entry, need = queue_entry(job_id, job, ticket)
  job[JOB.state] = "RETRYING"
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  redis.call("ZADD", KEY.due, job[JOB.deadline_at_ms], "j:" .. job_id)
  redis.call("ZADD", KEY.queue, 0, entry)
  if ticket[TICKET.fallback] ~= "" then
    redis.call("ZADD", KEY.due, "NX", now + rules[RULE.fallback_poll_ms], "w:" .. need)
  end
end
