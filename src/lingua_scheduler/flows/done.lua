#!lua flags=allow-oom
--[[ done: the node has the result. It is stored once.                            any live state -> FINISHED
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch result_ttl_ms lease_ms } result
        (result "" = none; lease_ms: for so long the caller has the event that tells of the end, 0 = it is a relay's)
  OUT   MOVED state taken_at_ms more | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH
        (taken_at_ms: when the event was posted, if the caller has it; then also how much else this put into the
         outbox: others were given a node, or another cell has a slot again)                                       ]]
-- include: clock, message_of, node_at, put_node, praise, free_slot, end_job, serve, write_tally
local now, packed_rules, answers = clock(ARGV[1]), ARGV[2], {}

for i = 3, #ARGV, 2 do
  local job_id, attempt, node_id, epoch, result_ttl_ms, lease_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local verdict, job, entry = message_of(job_id, attempt, node_id, epoch, now)
  local answer, more = nil, 0
  if verdict == "CURRENT" then
    if job[JOB.cell] == "" then
      local node = node_at(node_id)
      praise(node, job, now)
      free_slot(node, node_id .. ":" .. job_id .. ":" .. attempt, now)
      put_node(node_id, node)
    else
      -- include: let_go
      let_go(job_id, attempt, job[JOB.cell], node_id, "done", job[JOB.deadline_at_ms], now)
      more = 1
    end
    end_job(job_id, job, "FINISHED", "", result_ttl_ms, now, ARGV[i + 1] ~= "" and ARGV[i + 1], lease_ms)
    answer = { "MOVED", "FINISHED", lease_ms > 0 and now or nil }
  else
    -- include: confirm_stop
    answer = verdict == "FINISHED" and { "MOVED", "FINISHED" } or { verdict }
    if verdict == "FINISHED" and lease_ms > 0 then
      -- Who says it again may not have heard that he has the event. Until it is confirmed, he has it once more.
      local at = job[JOB.ended_at_ms]
      local event = cmsgpack.pack({ "ended", job_id, attempt, node_id, job[JOB.epoch], "", at })
      if redis.call("ZSCORE", KEY.outbox, event) then
        redis.call("ZADD", KEY.outbox, now + lease_ms, event)
        answer[3] = at
      end
    end
    confirm_stop(job_id, attempt, node_id, entry, now, cmsgpack.unpack(packed_rules))
  end
  more = more + serve(now)
  if answer[3] then
    answer[4] = more
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
