-- Those who wait with a fallback look for a node again, in order, at most 64 of them.
-- include: first_waiting, ticket_of, place, leave_queue
local function settle_need(need, now, rules)
  local limit = 64
  while true do
    local entry, job_id = first_waiting(need)
    if not entry then
      return
    end
    local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
    local ticket = ticket_of(job_id)
    local placed = limit > 0 and place(job_id, job, ticket, nil, now)
    if not placed then
      redis.call("ZADD", KEY.due, limit > 0 and now + rules[RULE.fallback_poll_ms] or now, "w:" .. need)
      return
    end
    leave_queue(job_id, job, ticket)
    limit = limit - 1
  end
end
