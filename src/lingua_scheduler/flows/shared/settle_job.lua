-- Time has passed for a job: an ack, a result or the job itself is overdue, it looks for a node again, or the memory
-- of it ends: first its text, later its record.
-- include: move_on, place_again, end_early
local function settle_job(job_id, now, rules)
  local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
  local state = job[JOB.state]
  if job[JOB.ended_at_ms] > 0 then
    local past = job[JOB.past]
    local released_at = #past > 0 and past[PAST.released_at_ms] or 0
    local gone_at = job[JOB.ended_at_ms] + rules[RULE.job_record_ttl_ms]
    if released_at > 0 then
      gone_at = released_at + rules[RULE.released_ttl_ms]
    end
    redis.call("HDEL", KEY.bodies, job_id .. ":payload", job_id .. ":result")
    if now >= gone_at then
      redis.call("HDEL", KEY.jobs, job_id)
      redis.call("HDEL", KEY.tickets, job_id)
      redis.call("ZREM", KEY.due, "j:" .. job_id)
    else
      redis.call("ZADD", KEY.due, gone_at, "j:" .. job_id)
    end
  elseif now >= job[JOB.deadline_at_ms] then
    end_early(job_id, job, "EXPIRED", CAUSE.expired, "deadline", now, rules)
  elseif state == "RETRYING" then
    local ticket = cmsgpack.unpack(redis.call("HGET", KEY.tickets, job_id))
    place_again(job_id, job, ticket, now, rules)
  elseif SOURCES.ACCEPTED[state] then
    move_on(job_id, job, CAUSE.ack_timeout, "ack_timeout", now, rules)
  else
    move_on(job_id, job, CAUSE.run_timeout, "run_timeout", now, rules)
  end
end
