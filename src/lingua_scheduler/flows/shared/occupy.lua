-- From now on a node of this cell has the job's attempt; writing the job is the caller's.
local function occupy(job_id, job, attempt, node_id, epoch, acks, choice, reasons, ack_ms, now)
  job[JOB.state] = "RESERVED"
  job[JOB.attempt] = attempt
  job[JOB.node] = node_id
  job[JOB.epoch] = epoch
  job[JOB.acks] = acks
  job[JOB.reserved_at_ms] = now
  job[JOB.dispatched_at_ms] = 0
  job[JOB.accepted_at_ms] = 0
  job[JOB.started_at_ms] = 0
  job[JOB.chosen] = choice
  if #reasons > 0 or #job[JOB.past] > 0 then
    -- include: past_of
    past_of(job)[PAST.reasons] = reasons
  end
  redis.call("ZADD", KEY.due, math.min(now + ack_ms, now + job[JOB.run_ms], job[JOB.deadline_at_ms]), "j:" .. job_id)
end
