#!lua flags=allow-oom
--[[ schema: which layout a cell's records have; of a cell that has none yet, from now on the one that is asked for.
  KEYS  counts
  ARGV  now_ms rules, then for each: { schema }
  OUT   SCHEMA schema                                                                                              ]]
local answers = {}

for i = 3, #ARGV do
  redis.call("HSETNX", KEY.counts, "schema", cmsgpack.unpack(ARGV[i]))
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", redis.call("HGET", KEY.counts, "schema") })
end
return answers
