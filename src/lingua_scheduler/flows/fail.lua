#!lua flags=allow-oom
--[[ fail: the node refuses the job or could not do it.            any live state -> RETRYING | FAILED | EXPIRED
  The next attempt is reserved here and now when the cell has a node for it. An overloaded node rests, without blame.
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch reason overloaded retry_after_ms }
  OUT   MOVED state attempt reserved node epoch acks       (reserved: the next attempt has its node already)
        UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                                                                ]]
-- include: clock, attempt_of, node_at, restand, look_again, move_on, confirm_stop, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch, reason, overloaded, retry_after_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local verdict, entry
  if job then
    verdict, entry = attempt_of(job, attempt, node_id, epoch)
  end
  local answer = { verdict or "UNKNOWN_JOB" }
  if verdict == "CURRENT" then
    if overloaded then
      local node = node_at(node_id)
      local rest_ms = retry_after_ms > 0 and math.min(retry_after_ms, rules[RULE.max_rest_ms]) or rules[RULE.rest_ms]
      node[NODE.rest_until_ms] = math.max(node[NODE.rest_until_ms], now + rest_ms)
      restand(node, now, rules)
      look_again(node_id, node, now, rules)
    end
    local state = move_on(job_id, job, overloaded and CAUSE.overloaded or CAUSE.failed, reason, now, rules)
    local reserved = job[JOB.state] == "RESERVED"
    if reserved then
      answer = { "MOVED", state, job[JOB.attempt], true, job[JOB.node], job[JOB.epoch], job[JOB.acks] }
    else
      answer = { "MOVED", state, state == "RETRYING" and attempt + 1 or attempt, false }
    end
  elseif verdict == "FINISHED" then
    answer = { "STALE_ATTEMPT" }
  elseif entry and (entry[3] == "failed" or entry[3] == "overloaded") then
    answer = { "MOVED", entry[5], entry[5] == "RETRYING" and attempt + 1 or attempt, false }
  else
    confirm_stop(job_id, attempt, node_id, now, rules)
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
