#!lua flags=allow-oom
--[[ done: the node has the result. It is stored once.                            any live state -> FINISHED
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch result_ttl_ms lease_ms } result
        (result "" = none; lease_ms: for so long the caller has the event that tells of the end, 0 = it is a relay's)
  OUT   MOVED state taken_at_ms served | UNKNOWN_JOB | STALE_ATTEMPT | NODE_MISMATCH
        (taken_at_ms: when the event was posted, if this very call did so and the caller has it; then also how many
         others were given a node, of whom the outbox tells)                                                       ]]
-- include: clock, message_of, node_at, put_node, praise, free_slot, end_job, serve, write_tally
local now, packed_rules, answers = clock(ARGV[1]), ARGV[2], {}

for i = 3, #ARGV, 2 do
  local job_id, attempt, node_id, epoch, result_ttl_ms, lease_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local verdict, job, entry = message_of(job_id, attempt, node_id, epoch, now)
  local answer
  if verdict == "CURRENT" then
    if job[JOB.cell] == "" then
      local node = node_at(node_id)
      praise(node, job, now)
      free_slot(node, node_id .. ":" .. job_id .. ":" .. attempt, now)
      put_node(node_id, node)
    else
      -- include: let_go
      let_go(job_id, attempt, job[JOB.cell], node_id, "done", job[JOB.deadline_at_ms], now)
    end
    end_job(job_id, job, "FINISHED", "", result_ttl_ms, now, ARGV[i + 1] ~= "" and ARGV[i + 1], lease_ms)
    answer = { "MOVED", "FINISHED", lease_ms > 0 and now or nil }
  else
    -- include: confirm_stop
    answer = verdict == "FINISHED" and { "MOVED", "FINISHED" } or { verdict }
    confirm_stop(job_id, attempt, node_id, entry, now, cmsgpack.unpack(packed_rules))
  end
  local served = serve(now)
  if answer[3] then
    answer[4] = served
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
