-- Time has passed for a job under way: an ack, a result or the job itself is overdue, or it looks for a node again.
-- include: move_on, place_again, end_early
local function settle_job(job_id, now, rules)
  local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
  local state = job[JOB.state]
  if now >= job[JOB.deadline_at_ms] then
    end_early(job_id, job, "EXPIRED", CAUSE.expired, "deadline", now, rules)
  elseif state == "RETRYING" then
    place_again(job_id, job, cmsgpack.unpack(redis.call("HGET", KEY.tickets, job_id)), now, rules)
  elseif SOURCES.ACCEPTED[state] then
    move_on(job_id, job, CAUSE.ack_timeout, "ack_timeout", now, rules)
  else
    move_on(job_id, job, CAUSE.run_timeout, "run_timeout", now, rules)
  end
end
