#!lua flags=no-writes
--[[ schema: which layout a cell's records have.
  KEYS  counts
  ARGV  now_ms rules, then for each: { }
  OUT   SCHEMA schema                                                             (0 = nobody has written to it yet) ]]
local answers = {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", tonumber(redis.call("HGET", KEY.counts, "schema") or 0) })
end
return answers
