-- The groups whose nodes serve a pair, those that serve its source to any target among them.
local function groups_of(pair)
  local any = string.match(pair, "^[^:]+") .. ":*"
  local groups = {}
  for _, packed in ipairs(redis.call("HMGET", KEY.pairs, pair, pair ~= any and any or "")) do
    if packed then
      for _, group in ipairs(cmsgpack.unpack(packed)) do
        groups[#groups + 1] = group
      end
    end
  end
  return groups
end
