-- Two nodes' records in one call. Half of what a dispatch costs is calls.
-- include: node_at
local function nodes_at(one_id, two_id)
  if known_nodes[one_id] == nil and known_nodes[two_id] == nil then
    local packed = redis.call("HMGET", KEY.nodes, one_id, two_id)
    for i, node_id in ipairs({ one_id, two_id }) do
      local node = cmsgpack.unpack(packed[i])
      known_nodes[node_id] = node
      indexed[node_id] = { node[NODE.group], node[NODE.standing] }
    end
  end
  return node_at(one_id), node_at(two_id)
end
