#!lua flags=allow-oom
--[[ deliver: the assignment was written to the node, or could not be.       RESERVED -> DISPATCHED | ACCEPTED
  A node that never acks accepts by the write. A failed write frees the slot at once and moves the job on; but not
  once the node has answered, for then somebody else's write got through.
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch sent }
  OUT   MOVED state attempt node epoch acks | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                          ]]
-- include: clock, attempt_of
local now, packed_rules, answers = clock(ARGV[1]), ARGV[2], {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch, sent = unpack(cmsgpack.unpack(ARGV[i]))
  local answer
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local verdict = job and attempt_of(job, attempt, node_id, epoch) or "UNKNOWN_JOB"
  if verdict == "CURRENT" then
    if job[JOB.state] == "RESERVED" and not sent then
      -- include: move_on, write_tally
      move_on(job_id, job, CAUSE.undelivered, "undelivered", now, cmsgpack.unpack(packed_rules))
      write_tally()
    elseif job[JOB.state] == "RESERVED" then
      job[JOB.dispatched_at_ms] = now
      if job[JOB.acks] == 1 then
        job[JOB.state] = "DISPATCHED"
      else
        job[JOB.state] = "ACCEPTED"
        job[JOB.accepted_at_ms] = now
        redis.call("ZADD", KEY.due, math.min(now + job[JOB.run_ms], job[JOB.deadline_at_ms]), "j:" .. job_id)
      end
      redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
    end
    answer = { "MOVED", job[JOB.state], job[JOB.attempt], job[JOB.node], job[JOB.epoch], job[JOB.acks] }
  elseif verdict == "FINISHED" then
    answer = { "MOVED", "FINISHED", attempt, node_id, job[JOB.epoch], job[JOB.acks] }
  else
    answer = { verdict }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
