#!lua flags=no-writes
--[[ feed: notices, the oldest first: those that came after one, or the last ones.
  KEYS  notices
  ARGV  now_ms rules, then for each: { after limit }                                          (after "": the last ones)
  OUT   FEED { id notice }                                                                                          ]]
local answers = {}

for i = 3, #ARGV do
  local after, limit = unpack(cmsgpack.unpack(ARGV[i]))
  local entries, found = nil, {}
  if after == "" then
    entries = redis.call("XREVRANGE", KEY.notices, "+", "-", "COUNT", limit)
  else
    entries = redis.call("XRANGE", KEY.notices, "(" .. after, "+", "COUNT", limit)
  end
  for n, entry in ipairs(entries) do
    local place = after == "" and #entries - n + 1 or n
    found[place] = { entry[1], cmsgpack.unpack(entry[2][2]) }
  end
  answers[#answers + 1] = cmsgpack.pack({ "FEED", found })
end
return answers
