#!lua flags=no-writes
--[[ schema: which layout a cell's records have, its birth, and what time it is.
  KEYS  counts
  ARGV  now_ms rules, then for each: { }
  OUT   SCHEMA schema birth now_ms                               (schema and birth 0 = nobody has written to it yet) ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for _ = 3, #ARGV do
  local schema, birth = unpack(redis.call("HMGET", KEY.counts, "schema", "birth"))
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", tonumber(schema or 0), tonumber(birth or 0), now })
end
return answers
