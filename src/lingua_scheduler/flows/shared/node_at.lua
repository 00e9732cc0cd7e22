-- A node's record, one table for each node in a run: two copies would overwrite each other. What was read without being
-- unpacked is kept in `glanced`. The index is what the engine's `standing` and `room` say of a node until `put_node`
-- brings them up to date. Woken are the nodes that came to have room: somebody may be waiting for them. When one has
-- fallen, somebody may be waiting for just that. Why jobs were refused is kept in `told` until the index changes.
local known_nodes, glanced, indexed, woken, has_fallen, told = {}, {}, {}, {}, false, {}

local function node_at(node_id)
  local node = known_nodes[node_id]
  if node == nil then
    local packed = glanced[node_id] or redis.call("HGET", KEY.nodes, node_id)
    node = packed and cmsgpack.unpack(packed)
    known_nodes[node_id] = node
    if node then
      indexed[node_id] = { node[NODE.group], node[NODE.standing] }
    end
  end
  return node
end
