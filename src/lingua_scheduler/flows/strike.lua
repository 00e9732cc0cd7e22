#!lua flags=allow-oom
--[[ strike: an instance whose inbox is closed leaves the directory, unless it has beaten since.
  KEYS  instances
  ARGV  now_ms rules, then for each: { instance_id beat }
  OUT   STRUCK was_there                                                                                            ]]
local answers = {}

for i = 3, #ARGV do
  local instance_id, beat = unpack(cmsgpack.unpack(ARGV[i]))
  local last = redis.call("ZSCORE", KEY.instances, instance_id)
  local is_struck = last and tonumber(last) == beat
  if is_struck then
    redis.call("ZREM", KEY.instances, instance_id)
  end
  answers[#answers + 1] = cmsgpack.pack({ "STRUCK", is_struck })
end
return answers
