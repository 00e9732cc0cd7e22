-- One node more in the group of this capability; the first one makes the group. Nodes without any pair are group 0.
local function join_group(signature, served)
  if #served == 0 then
    return 0
  end
  local group = tonumber(redis.call("HGET", KEY.signatures, signature))
  if group then
    local record = cmsgpack.unpack(redis.call("HGET", KEY.groups, group))
    record[GROUP.nodes] = record[GROUP.nodes] + 1
    redis.call("HSET", KEY.groups, group, cmsgpack.pack(record))
    return group
  end
  group = redis.call("HINCRBY", KEY.counts, "group", 1)
  redis.call("HSET", KEY.signatures, signature, group)
  redis.call("HSET", KEY.groups, group, cmsgpack.pack({ signature, 1, served }))
  for _, pair in ipairs(served) do
    local packed = redis.call("HGET", KEY.pairs, pair)
    local groups = packed and cmsgpack.unpack(packed) or {}
    groups[#groups + 1] = group
    redis.call("HSET", KEY.pairs, pair, cmsgpack.pack(groups))
  end
  return group
end
