#!lua flags=allow-oom
--[[ stopped: the node no longer works on this attempt. Of a fenced one it ends the limbo; of the current one it is a
  failure.                                                                   any live state -> RETRYING | FAILED
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch }       (epoch "" = not told)
  OUT   MOVED state attempt | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                                          ]]
-- include: clock, message_of, move_on, confirm_stop, serve, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch = unpack(cmsgpack.unpack(ARGV[i]))
  local verdict, job, entry = message_of(job_id, attempt, node_id, epoch, now)
  local answer = { verdict }
  if verdict == "CURRENT" then
    entry = move_on(job_id, job, CAUSE.stopped, "stopped", now, rules)
  else
    answer = { verdict == "FINISHED" and "STALE_ATTEMPT" or verdict }
    confirm_stop(job_id, attempt, node_id, entry, now, rules)
  end
  if entry and entry[PAST_ATTEMPT.cause] == "stopped" then
    answer = { "MOVED", entry[PAST_ATTEMPT.next_state], entry[PAST_ATTEMPT.next_attempt] }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
