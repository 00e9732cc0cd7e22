#!lua flags=allow-oom
--[[ undeliver: the assignment could not be written to the node.             RESERVED -> RETRYING | FAILED | EXPIRED
  The slot is free at once and the job moves on; but not once the node has answered, for then somebody else's write got
  through. Whoever is not sure whether somebody wrote it before leaves the job with a node that may come back and say
  so. A node that cannot be written to rests as long as its socket may take to come back. Told again, it is answered
  with where the job is now.
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch unsure }                    (epoch "" = not told)
  OUT   MOVED state attempt node epoch acks | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH                          ]]
-- include: clock, attempt_of, node_at, rest, move_on, serve, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch, unsure = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local answer = { "UNKNOWN_JOB" }
  if packed then
    local job = cmsgpack.unpack(packed)
    local verdict, entry = attempt_of(job, attempt, node_id, epoch)
    if verdict == "CURRENT" and job[JOB.state] == "RESERVED" then
      -- Of the node of a guest its home knows nothing.
      local node = job[JOB.cell] == "" and node_at(node_id)
      if not (unsure and node and node[NODE.away_until_ms] > 0) then
        if node then
          rest(node_id, node, rules[RULE.reconnect_grace_ms], "undelivered", now, rules)
        end
        entry = move_on(job_id, job, CAUSE.undelivered, "undelivered", now, rules)
      end
    end
    local undone = entry and entry[PAST_ATTEMPT.cause] == "undelivered"
    answer = { verdict }
    if undone or verdict == "CURRENT" or verdict == "FINISHED" then
      answer = { "MOVED", job[JOB.state], job[JOB.attempt], job[JOB.node], job[JOB.epoch], job[JOB.acks] }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
