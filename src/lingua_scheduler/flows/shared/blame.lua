-- A node failed a job, or was lost. Says whether it is under suspicion: then it is not probed before a while has
-- passed, and the caller must judge it anew. Of the failure that makes it suspect people are told, and `why`.
-- include: failures_of
local function blame(node_id, node, why, now, rules)
  local before = failures_of(node[NODE.recent])
  node[NODE.recent] = (2 * node[NODE.recent] + 1) % SUSPICION.window
  local failures = failures_of(node[NODE.recent])
  if failures < SUSPICION.failures then
    return false
  end
  node[NODE.probe_at_ms] = now + rules[RULE.probe_ms]
  if before < SUSPICION.failures then
    -- include: post
    post("suspected", "", failures, node_id, node[NODE.epoch], why, now)
  end
  return true
end
