-- A node that came back too often within a while rests, each time twice as long.
local function damp(node, now, rules)
  local more = node[NODE.flaps] - FLAPS.most
  if more >= 0 and now - node[NODE.flapped_at_ms] < rules[RULE.flap_window_ms] then
    local rest_ms = math.min(rules[RULE.rest_ms] * 2 ^ more, rules[RULE.max_rest_ms])
    node[NODE.rest_until_ms] = math.max(node[NODE.rest_until_ms], now + rest_ms)
  end
end
