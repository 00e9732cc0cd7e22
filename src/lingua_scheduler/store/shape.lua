#!lua flags=allow-oom
--[[ shape: which layout all records under this prefix have, by the directory; if it does not say, the one offered.
  KEYS  shape
  ARGV  now_ms rules, then for each: { schema }                                            (0 = only look)
  OUT   SHAPE schema                                                       (0 = nobody has said it yet)           ]]
local answers = {}

for i = 3, #ARGV do
  local schema = unpack(cmsgpack.unpack(ARGV[i]))
  if schema > 0 then
    redis.call("SET", KEY.shape, schema, "NX")
  end
  answers[#answers + 1] = cmsgpack.pack({ "SHAPE", tonumber(redis.call("GET", KEY.shape) or 0) })
end
return answers
