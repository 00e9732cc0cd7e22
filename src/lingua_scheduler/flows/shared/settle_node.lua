-- Time has passed for a node: it rested enough, fell stale, was lost, or was gone for so long that it is forgotten.
-- At most `limit` attempts are moved; says how many were.
-- include: node_at, put_node, restand, look_again, lose_node, post
local function settle_node(node_id, limit, now, rules)
  local node = node_at(node_id)
  -- A grace is a promise: within it, silence does not count.
  local away = node[NODE.away_until_ms]
  local gone_at = away > 0 and away or node[NODE.seen_at_ms] + rules[RULE.offline_ms]
  if node[NODE.lost_at_ms] > 0 then
    return lose_node(node_id, node, limit, now, rules)
  end
  if now >= gone_at then
    node[NODE.lost_at_ms] = now
    post("lost", "", 0, node_id, node[NODE.epoch], "", now)
    return lose_node(node_id, node, limit, now, rules)
  end
  restand(node, now, rules)
  put_node(node_id, node)
  look_again(node_id, node, now, rules)
  return 0
end
