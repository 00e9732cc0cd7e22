-- Erase a node that holds no current attempt and cannot be chosen: its record, its group, and what is left of it in
-- limbo.
-- include: node_at, leases_of, leave_group
local function forget_node(node_id, node)
  for _, entry in ipairs(leases_of(node_id)) do
    redis.call("ZREM", KEY.leases, entry[1])
    redis.call("HDEL", KEY.limbo, entry[1])
    redis.call("ZREM", KEY.due, "l:" .. entry[1])
  end
  leave_group(node[NODE.group])
  redis.call("ZREM", KEY.standing, node_id)
  redis.call("ZREM", KEY.due, "n:" .. node_id)
  redis.call("HDEL", KEY.profiles, node_id)
  redis.call("HDEL", KEY.nodes, node_id)
  known_nodes[node_id] = false
end
