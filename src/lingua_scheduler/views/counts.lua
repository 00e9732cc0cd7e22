#!lua flags=no-writes
--[[ counts: what a cell has counted since it began.
  KEYS  counts
  ARGV  now_ms rules, then for each: { }
  OUT   COUNTS { name number }                                                                                     ]]
local answers = {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "COUNTS", redis.call("HGETALL", KEY.counts) })
end
return answers
