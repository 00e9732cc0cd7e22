-- A node is gone, or was: it is remembered for a while how often.
local function flap(node, now, rules)
  if now - node[NODE.flapped_at_ms] >= rules[RULE.flap_window_ms] then
    node[NODE.flaps] = 0
  end
  node[NODE.flaps] = node[NODE.flaps] + 1
  node[NODE.flapped_at_ms] = now
end
