-- The group of this capability; its first node makes it. Nodes without any pair are group 0.
local function join_group(signature, served)
  if #served == 0 then
    return 0
  end
  local group = tonumber(redis.call("HGET", KEY.signatures, signature))
  if group then
    return group
  end
  -- include: change_pairs
  group = redis.call("HINCRBY", KEY.counts, "group", 1)
  redis.call("HSET", KEY.signatures, signature, group)
  local record = NEW.group
  record[GROUP.signature] = signature
  record[GROUP.pairs] = served
  redis.call("HSET", KEY.groups, group, cmsgpack.pack(record))
  change_pairs(served, 1, function(groups)
    groups[#groups + 1] = group
    return groups
  end)
  return group
end
