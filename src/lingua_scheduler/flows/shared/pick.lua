-- Choose among the nodes of some groups that have room, without those that are `banned`, and without those to `avoid`
-- while there is another. With `pool`, these groups are a wish among those of the pool, for which only trusted nodes
-- are taken. Gives the node, how many there were to choose from, and what was special.
-- include: pick_from
local function pick(groups, job, policy, banned, avoid, now, pool)
  local counts = {}
  for i, room in ipairs(redis.call("HMGET", KEY.room, unpack(groups))) do
    local number = tonumber(room) or 0
    if number >= ROOM.suspect then
      -- include: pick_doubted
      return pick_doubted(groups, job, policy, banned, avoid, now, pool)
    end
    counts[i] = number
  end
  -- A row of the index is a group: there the available ones come first.
  local node_id, node, number = pick_from(groups, counts, job, policy, banned, avoid)
  if not node_id and #avoid > 0 then
    return pick_from(groups, counts, job, policy, banned, {})
  end
  return node_id, node, number
end
