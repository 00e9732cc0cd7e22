-- The groups whose nodes serve a pair, those that serve its source to any target among them, and lack none of `needs`.
-- Under `src:*` no target is named, so that whether such nodes speak it is to be asked.
local function groups_of(pair, needs)
  local groups, band, any = {}, bit.band, string.sub(pair, 1, string.find(pair, ":", 1, true)) .. "*"
  local named, open = unpack(redis.call("HMGET", KEY.pairs, pair, pair ~= any and any or ""))
  for _, entry in ipairs(named and cmsgpack.unpack(named) or {}) do
    if band(entry, needs) == 0 then
      groups[#groups + 1] = (entry - entry % LACK.count) / LACK.count
    end
  end
  if open then
    local asks = band(needs, LACK.mute) ~= 0
    -- include: speaks
    for _, entry in ipairs(cmsgpack.unpack(open)) do
      local group = (entry - entry % LACK.count) / LACK.count
      local fits = band(entry, needs - (asks and LACK.mute or 0)) == 0
      if fits and (not asks or speaks(group, string.match(pair, "[^:]+$"))) then
        groups[#groups + 1] = group
      end
    end
  end
  return groups
end
