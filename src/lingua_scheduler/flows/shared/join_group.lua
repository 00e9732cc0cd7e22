-- The group of this capability; its first node makes it. Nodes without any pair are group 0.
local function join_group(signature, served, profile)
  if #served == 0 then
    return 0
  end
  local group = tonumber(redis.call("HGET", KEY.signatures, signature))
  if group then
    return group
  end
  -- include: change_pairs, lacks_of, invite
  group = redis.call("HINCRBY", KEY.counts, "group", 1)
  redis.call("HSET", KEY.signatures, signature, group)
  local record, lacks, spoken = NEW.group, lacks_of(profile), {}
  record[GROUP.signature] = signature
  record[GROUP.tts] = profile[PROFILE.tts]
  record[GROUP.labels] = profile[PROFILE.labels]
  record[GROUP.pairs] = served
  redis.call("HSET", KEY.groups, group, cmsgpack.pack(record))
  for _, language in ipairs(profile[PROFILE.tts] or {}) do
    spoken[language] = true
  end
  change_pairs(served, 1, function(groups, tgt)
    groups[#groups + 1] = LACK.count * group + lacks + (spoken[tgt] and 0 or LACK.mute)
    return groups
  end)
  invite(group, served)
  return group
end
