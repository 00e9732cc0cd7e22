-- A node did a job: what it is remembered by. One that stays under suspicion may have the next probe at once.    pure
local function praise(node, job, now)
  if node[NODE.recent] > 0 then
    -- include: failures_of
    node[NODE.recent] = 2 * node[NODE.recent] % SUSPICION.window
    node[NODE.probe_at_ms] = failures_of(node[NODE.recent]) >= SUSPICION.failures and now or 0
  end
  local accepted_at, reserved_at = job[JOB.accepted_at_ms], job[JOB.reserved_at_ms]
  local took = 7 * node[NODE.typical_ms] + now - reserved_at
  if accepted_at > 0 then
    local ack = accepted_at - reserved_at
    took = took - ack
    ack = 7 * node[NODE.ack_ms] + ack
    node[NODE.ack_ms] = (ack - ack % 8) / 8
  end
  node[NODE.typical_ms] = (took - took % 8) / 8
end
