#!lua flags=allow-oom
--[[ stopped: the node no longer works on this attempt. Of a fenced one it ends the limbo; of the current one it is a
  failure.                                                                   any live state -> RETRYING | FAILED
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch }       (epoch "" = not told)
  OUT   MOVED state attempt | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                                          ]]
-- include: clock, attempt_of, confirm_stop, move_on, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local verdict, entry
  if job then
    verdict, entry = attempt_of(job, attempt, node_id, epoch)
  end
  local answer = { verdict or "UNKNOWN_JOB" }
  if verdict == "CURRENT" then
    local state = move_on(job_id, job, CAUSE.stopped, "stopped", now, rules)
    local waits = job[JOB.state] == "RETRYING"
    answer = { "MOVED", state, waits and attempt + 1 or job[JOB.attempt] }
  elseif verdict == "FINISHED" then
    answer = { "STALE_ATTEMPT" }
  elseif entry and entry[3] == "stopped" then
    answer = { "MOVED", entry[5], entry[5] == "RETRYING" and attempt + 1 or attempt }
  else
    confirm_stop(job_id, attempt, node_id, now, rules)
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
