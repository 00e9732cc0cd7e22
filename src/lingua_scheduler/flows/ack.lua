#!lua flags=allow-oom
--[[ ack: the node has the job.                                             RESERVED | DISPATCHED -> ACCEPTED
  KEYS  nodes · jobs · due
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch }       (epoch "" = not told)
  OUT   MOVED state | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                                                  ]]
-- include: clock, message_of
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch = unpack(cmsgpack.unpack(ARGV[i]))
  local verdict, job = message_of(job_id, attempt, node_id, epoch, now)
  if verdict == "CURRENT" and SOURCES.ACCEPTED[job[JOB.state]] then
    job[JOB.state] = "ACCEPTED"
    job[JOB.accepted_at_ms] = now
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  end
  local heard = verdict == "CURRENT" or verdict == "FINISHED"
  answers[#answers + 1] = cmsgpack.pack(heard and { "MOVED", job[JOB.state] } or { verdict })
end
return answers
