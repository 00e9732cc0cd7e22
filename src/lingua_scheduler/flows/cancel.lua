#!lua flags=allow-oom
--[[ cancel: nobody wants the result any more. An ended job stays as it is.   any state without an end -> CANCELLED
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id hop reason }          (hop: how often it went on before it came here)
  OUT   MOVED state | GONE_ON cell hop | UNKNOWN_JOB                                                               ]]
-- include: clock, end_early, write_tally, gone_on
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, hop, reason = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  if job and job[JOB.ended_at_ms] == 0 then
    end_early(job_id, job, "CANCELLED", CAUSE.cancelled, reason, now, rules)
  end
  local answer = job and { "MOVED", job[JOB.state] } or gone_on(job_id, hop) or { "UNKNOWN_JOB" }
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
