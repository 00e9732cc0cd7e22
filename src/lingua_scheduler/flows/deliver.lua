#!lua flags=allow-oom
--[[ deliver: the assignment was written to the node.                        RESERVED -> DISPATCHED | ACCEPTED
  A node that never acks accepts by the write.
  KEYS  jobs
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch }       (epoch "" = not told)
  OUT   MOVED state attempt node epoch acks | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                          ]]
-- include: clock, attempt_of
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local verdict = job and attempt_of(job, attempt, node_id, epoch) or "UNKNOWN_JOB"
  if verdict == "CURRENT" and job[JOB.state] == "RESERVED" then
    job[JOB.dispatched_at_ms] = now
    if job[JOB.acks] == 1 then
      job[JOB.state] = "DISPATCHED"
    else
      job[JOB.state] = "ACCEPTED"
      job[JOB.accepted_at_ms] = now
    end
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  end
  local answer = { verdict }
  if verdict == "CURRENT" or verdict == "FINISHED" then
    answer = { "MOVED", job[JOB.state], job[JOB.attempt], job[JOB.node], job[JOB.epoch], job[JOB.acks] }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
