-- A node failed a job, or was lost. Says whether it is under suspicion: then it is not probed before a while has
-- passed, and the caller must judge it anew.
-- include: failures_of
local function blame(node, now, rules)
  node[NODE.recent] = (2 * node[NODE.recent] + 1) % SUSPICION.window
  local is_suspect = failures_of(node[NODE.recent]) >= SUSPICION.failures
  if is_suspect then
    node[NODE.probe_at_ms] = now + rules[RULE.probe_ms]
  end
  return is_suspect
end
