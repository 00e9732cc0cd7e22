#!lua flags=no-writes
--[[ instances: who stands in the directory, and when each last beat.
  KEYS  instances
  ARGV  now_ms rules, then for each: { }
  OUT   INSTANCES now_ms { instance_id beat }                                                                       ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for _ = 3, #ARGV do
  local listed, found = redis.call("ZRANGE", KEY.instances, 0, -1, "WITHSCORES"), {}
  for at = 1, #listed, 2 do
    found[#found + 1] = { listed[at], tonumber(listed[at + 1]) }
  end
  answers[#answers + 1] = cmsgpack.pack({ "INSTANCES", now, found })
end
return answers
