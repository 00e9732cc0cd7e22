-- Take a slot of a node for an attempt, `job:attempt`. Says whether it was taken: not under a number with which the
-- node claims to work already.
-- include: put_node, by_load
local function take_slot(node_id, node, name, now)
  if redis.call("ZADD", KEY.leases, 0, node_id .. ":" .. name) == 0 then
    return false
  end
  node[NODE.used] = node[NODE.used] + 1
  node[NODE.standing] = by_load(node, now)
  put_node(node_id, node)
  return true
end
