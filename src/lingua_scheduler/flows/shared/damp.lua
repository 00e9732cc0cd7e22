-- A node that came back too often within a while rests, each time more twice as long.
-- include: times_gone
local function damp(node_id, node, now, rules)
  local more = times_gone(node, now, rules) - FLAPS.most
  if more >= 0 then
    -- include: begin_rest
    local rest_ms = math.min(rules[RULE.rest_ms] * 2 ^ more, rules[RULE.max_rest_ms])
    begin_rest(node_id, node, rest_ms, "flapping", now)
  end
end
