-- A node that came back too often within a while rests, each time more twice as long.                            pure
-- include: times_gone
local function damp(node, now, rules)
  local more = times_gone(node, now, rules) - FLAPS.most
  if more >= 0 then
    local rest_ms = math.min(rules[RULE.rest_ms] * 2 ^ more, rules[RULE.max_rest_ms])
    node[NODE.rest_until_ms] = math.max(node[NODE.rest_until_ms], now + rest_ms)
  end
end
