#!lua flags=no-writes
--[[ schema: which layout a cell's records have, its birth, the reign under which it was last served, and the time.
  KEYS  counts
  ARGV  now_ms rules, then for each: { }
  OUT   SCHEMA schema birth now_ms reign                                      (0 = nobody has written to it yet)   ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for _ = 3, #ARGV do
  local schema, birth, reign = unpack(redis.call("HMGET", KEY.counts, "schema", "birth", "reign"))
  schema, birth, reign = tonumber(schema or 0), tonumber(birth or 0), tonumber(reign or 0)
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", schema, birth, now, reign })
end
return answers
