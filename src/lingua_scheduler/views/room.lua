#!lua flags=no-writes
--[[ room: how many nodes of a cell could take a job of each of these pairs now, and whether anybody alive serves it.
  KEYS  standing · room · groups · pairs
  ARGV  now_ms rules, then for each: { { pairs } }
  OUT   ROOM { numbers } { live }                                                                                   ]]
-- include: groups_of, is_live
local answers = {}

for i = 3, #ARGV do
  local found, live = {}, {}
  for n, pair in ipairs(cmsgpack.unpack(ARGV[i])[1]) do
    local groups = groups_of(pair, 0)
    found[n], live[n] = 0, is_live(pair)
    for _, room in ipairs(#groups > 0 and redis.call("HMGET", KEY.room, unpack(groups)) or {}) do
      local number = tonumber(room or 0)
      found[n] = found[n] + number % ROOM.suspect + math.floor(number / ROOM.suspect)
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "ROOM", found, live })
end
return answers
