-- One node less in a group; the last one takes the group and its place in the pairs with it.
local function leave_group(group)
  if group == 0 then
    return
  end
  local record = cmsgpack.unpack(redis.call("HGET", KEY.groups, group))
  record[GROUP.nodes] = record[GROUP.nodes] - 1
  if record[GROUP.nodes] > 0 then
    redis.call("HSET", KEY.groups, group, cmsgpack.pack(record))
    return
  end
  for _, pair in ipairs(record[GROUP.pairs]) do
    local others = {}
    for _, other in ipairs(cmsgpack.unpack(redis.call("HGET", KEY.pairs, pair))) do
      if other ~= group then
        others[#others + 1] = other
      end
    end
    if #others > 0 then
      redis.call("HSET", KEY.pairs, pair, cmsgpack.pack(others))
    else
      redis.call("HDEL", KEY.pairs, pair)
    end
  end
  redis.call("HDEL", KEY.signatures, record[GROUP.signature])
  redis.call("HDEL", KEY.room, group)
  redis.call("HDEL", KEY.groups, group)
end
