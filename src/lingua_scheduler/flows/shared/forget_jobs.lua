-- The memory of ended jobs ends, at most `limit` times: first their text, later their record. Says how many times, and
-- whether more is due.
local function forget_jobs(limit, now, rules)
  local members = redis.call("ZRANGEBYSCORE", KEY.due, DUE.forget, DUE.forget + now, "LIMIT", 0, limit)
  for _, member in ipairs(members) do
    local job_id = string.sub(member, 3)
    local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
    local released_at = #job[JOB.past] > 0 and job[JOB.past][PAST.released_at_ms] or 0
    local gone_at = job[JOB.ended_at_ms] + rules[RULE.job_record_ttl_ms]
    if released_at > 0 then
      gone_at = released_at + rules[RULE.released_ttl_ms]
    end
    redis.call("HDEL", KEY.bodies, job_id .. ":payload", job_id .. ":result")
    if now >= gone_at then
      redis.call("HDEL", KEY.jobs, job_id)
      redis.call("HDEL", KEY.tickets, job_id)
      redis.call("ZREM", KEY.due, member)
    else
      redis.call("ZADD", KEY.due, DUE.forget + gone_at, member)
    end
  end
  return #members, redis.call("ZCOUNT", KEY.due, DUE.forget, DUE.forget + now) > 0
end
