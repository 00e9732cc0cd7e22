-- A node gets nothing for a moment, without blame. Writing its record is the caller's.
-- include: restand, look_again
local function rest(node_id, node, rest_ms, now, rules)
  node[NODE.rest_until_ms] = math.max(node[NODE.rest_until_ms], now + rest_ms)
  restand(node, now, rules)
  look_again(node_id, node, now, rules)
end
