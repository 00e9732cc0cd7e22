-- Write a node's record, and its place in the index where that changed. Group 0 serves nothing, so nobody asks for
-- its room.
-- include: node_at
local function put_node(node_id, node)
  local place = indexed[node_id]
  local group, standing = node[NODE.group], node[NODE.standing]
  if place[1] ~= group or place[2] ~= standing then
    redis.call("ZADD", KEY.standing, STANDING.count * group + standing, node_id)
    if place[2] == STANDING.available and place[1] > 0 then
      redis.call("HINCRBY", KEY.room, place[1], -1)
    end
    if standing == STANDING.available and group > 0 then
      redis.call("HINCRBY", KEY.room, group, 1)
      woken[#woken + 1] = node_id
    end
    place[1], place[2] = group, standing
  end
  redis.call("HSET", KEY.nodes, node_id, cmsgpack.pack(node))
end
