#!lua flags=no-writes
--[[ schema: which layout a cell's records have, and what time it is.
  KEYS  counts
  ARGV  now_ms rules, then for each: { }
  OUT   SCHEMA schema now_ms                                               (schema 0 = nobody has written to it yet) ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", tonumber(redis.call("HGET", KEY.counts, "schema") or 0), now })
end
return answers
