-- Write a node's record, and its place in the index where that changed. Group 0 serves nothing, so nobody asks for
-- its room.
-- include: node_at
local function put_node(node_id, node)
  local place = indexed[node_id]
  local group, standing = node[NODE.group], node[NODE.standing]
  if place[1] ~= group or place[2] ~= standing then
    redis.call("ZADD", KEY.standing, STANDING.count * group + standing, node_id)
    local had_room = place[2] == STANDING.available and 1 or place[2] == STANDING.suspect and ROOM.suspect
    local has_room = standing == STANDING.available and 1 or standing == STANDING.suspect and ROOM.suspect
    if had_room and place[1] > 0 then
      redis.call("HINCRBY", KEY.room, place[1], -had_room)
    end
    if has_room and group > 0 then
      redis.call("HINCRBY", KEY.room, group, has_room)
      woken[#woken + 1] = node_id
    end
    if place[1] > 0 and place[2] < STANDING.stale and (standing >= STANDING.stale or place[1] ~= group) then
      has_fallen = true
    end
    place[1], place[2], told = group, standing, {}
  end
  redis.call("HSET", KEY.nodes, node_id, cmsgpack.pack(node))
end
