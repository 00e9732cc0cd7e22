-- Erase a node that holds no current attempt and cannot be chosen: its record, its group, and what is left of it in
-- limbo. What the operator wants of it stays with its name, for when it comes back.
-- include: node_at, leases_of, leave_group, keep_intent
local function forget_node(node_id, node, now, rules)
  for _, entry in ipairs(leases_of(node_id)) do
    redis.call("ZREM", KEY.leases, entry[1])
    redis.call("HDEL", KEY.limbo, entry[1])
    redis.call("ZREM", KEY.due, "l:" .. entry[1])
  end
  redis.call("ZREM", KEY.standing, node_id)
  leave_group(node[NODE.group])
  redis.call("ZREM", KEY.due, "n:" .. node_id, "r:" .. node_id, "m:" .. node_id)
  redis.call("HDEL", KEY.profiles, node_id)
  redis.call("HDEL", KEY.nodes, node_id)
  known_nodes[node_id], told, has_fallen = false, {}, has_fallen or node[NODE.standing] < STANDING.stale
  keep_intent(node_id, node[NODE.intent], node[NODE.limit], now, rules)
end
