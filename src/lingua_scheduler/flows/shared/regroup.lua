-- What a node can do has changed by a mark: it moves to the group of its like. One that serves nothing has none.
-- include: put_node, served_pairs, signature_of, join_group, leave_group
local function regroup(node_id, node, profile)
  local left = node[NODE.group]
  if left > 0 then
    local served = served_pairs(profile)
    node[NODE.group] = join_group(signature_of(profile, served), served, profile)
  end
  redis.call("HSET", KEY.profiles, node_id, cmsgpack.pack(profile))
  put_node(node_id, node)
  leave_group(left)
end
