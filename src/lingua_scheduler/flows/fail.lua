#!lua flags=allow-oom
--[[ fail: the node refuses the job or could not do it.            any live state -> RETRYING | FAILED | EXPIRED
  The next attempt is reserved here and now when the cell has a node for it. An overloaded node rests, without blame.
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch reason overloaded retry_after_ms }
  OUT   MOVED state attempt reserved node epoch acks       (reserved: the next attempt has its node already)
        UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                                                                ]]
-- include: clock, message_of, node_at, rest, move_on, confirm_stop, serve, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch, reason, overloaded, retry_after_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local verdict, job, entry = message_of(job_id, attempt, node_id, epoch, now)
  local answer = { verdict }
  if verdict == "CURRENT" then
    if overloaded and job[JOB.cell] == "" then
      local rest_ms = retry_after_ms > 0 and math.min(retry_after_ms, rules[RULE.max_rest_ms]) or rules[RULE.rest_ms]
      rest(node_id, node_at(node_id), rest_ms, "overloaded", now, rules)
    end
    entry = move_on(job_id, job, overloaded and CAUSE.overloaded or CAUSE.failed, reason, now, rules)
    answer = { "MOVED", entry[PAST_ATTEMPT.next_state], entry[PAST_ATTEMPT.next_attempt], false }
    if job[JOB.state] == "RESERVED" then
      answer = { "MOVED", "RETRYING", job[JOB.attempt], true, job[JOB.node], job[JOB.epoch], job[JOB.acks] }
    end
  else
    answer = { verdict == "FINISHED" and "STALE_ATTEMPT" or verdict }
    if entry and (entry[PAST_ATTEMPT.cause] == "failed" or entry[PAST_ATTEMPT.cause] == "overloaded") then
      answer = { "MOVED", entry[PAST_ATTEMPT.next_state], entry[PAST_ATTEMPT.next_attempt], false }
    end
    confirm_stop(job_id, attempt, node_id, entry, now, rules)
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
