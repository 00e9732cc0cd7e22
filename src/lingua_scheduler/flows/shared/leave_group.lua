-- A node has left its group in the index; the last one takes the group, its place in the pairs, and the places of those
-- who wait for it with it.
local function leave_group(group)
  local first = STANDING.count * group
  if group == 0 or redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1) > 0 then
    return
  end
  -- include: change_pairs
  local record = cmsgpack.unpack(redis.call("HGET", KEY.groups, group))
  change_pairs(record[GROUP.pairs], -1, function(groups)
    local others = {}
    for _, other in ipairs(groups) do
      if math.floor(other / LACK.count) ~= group then
        others[#others + 1] = other
      end
    end
    return others
  end)
  redis.call("HDEL", KEY.signatures, record[GROUP.signature])
  redis.call("HDEL", KEY.room, group)
  redis.call("HDEL", KEY.groups, group)
  for _, places in ipairs({ "g" .. group, "x" .. group }) do
    redis.call("ZREMRANGEBYLEX", KEY.queue, "[" .. places .. ":", "(" .. places .. ";")
  end
end
