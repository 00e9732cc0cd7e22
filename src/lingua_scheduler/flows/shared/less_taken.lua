-- Of two nodes the one with the lower share of its slots taken; equal: the first. Only its record is unpacked.
-- include: node_at
local function less_taken(one_id, two_id)
  local one, two = unpack(redis.call("HMGET", KEY.nodes, one_id, two_id))
  if not one or not two then
    return nil
  end
  local _, one_used, one_max = cmsgpack.unpack_limit(one, 2, NODE.header)
  local _, two_used, two_max = cmsgpack.unpack_limit(two, 2, NODE.header)
  if two_used * one_max < one_used * two_max then
    glanced[two_id] = two
    return two_id, node_at(two_id)
  end
  glanced[one_id] = one
  return one_id, node_at(one_id)
end
