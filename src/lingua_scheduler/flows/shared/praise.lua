-- A node did a job: what it is remembered by. One that stays under suspicion may have the next probe at once; that it
-- is not suspect any more, people are told.
-- include: averaged
local function praise(node, job, now)
  if node[NODE.recent] > 0 then
    -- include: failures_of
    local was_suspect = failures_of(node[NODE.recent]) >= SUSPICION.failures
    node[NODE.recent] = 2 * node[NODE.recent] % SUSPICION.window
    local is_suspect = failures_of(node[NODE.recent]) >= SUSPICION.failures
    node[NODE.probe_at_ms] = is_suspect and now or 0
    if was_suspect and not is_suspect then
      -- include: post
      post("trusted", "", 0, job[JOB.node], node[NODE.epoch], "", now)
    end
  end
  local accepted_at, took = job[JOB.accepted_at_ms], now - job[JOB.reserved_at_ms]
  if accepted_at > 0 then
    node[NODE.ack_ms] = averaged(node[NODE.ack_ms], accepted_at - job[JOB.reserved_at_ms])
    took = now - accepted_at
  end
  node[NODE.typical_ms] = averaged(node[NODE.typical_ms], took)
end
