#!lua flags=allow-oom
--[[ schema: which layout a cell's records have, and its birth; a cell that has none yet gets those that are offered.
  KEYS  counts
  ARGV  now_ms rules, then for each: { schema birth }                      (birth: a number that nobody else offers)
  OUT   SCHEMA schema birth                                         (birth 0 = another release wrote it, without one) ]]
local answers = {}

for i = 3, #ARGV do
  local schema, birth = unpack(cmsgpack.unpack(ARGV[i]))
  if redis.call("HSETNX", KEY.counts, "schema", schema) == 1 then
    redis.call("HSET", KEY.counts, "birth", birth)
  end
  local written, born = unpack(redis.call("HMGET", KEY.counts, "schema", "birth"))
  answers[#answers + 1] = cmsgpack.pack({ "SCHEMA", tonumber(written), tonumber(born or 0) })
end
return answers
