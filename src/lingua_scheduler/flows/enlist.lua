#!lua flags=allow-oom
--[[ enlist: an instance is about to beat. It stands in the directory before anybody can write to it, so that no inbox
  is ever forgotten. Each beat has a greater number than the last: whoever saw that one can tell that there is another.
  KEYS  instances
  ARGV  now_ms rules, then for each: { instance_id }
  OUT   ENLISTED beat                                                                                               ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local instance_id = cmsgpack.unpack(ARGV[i])[1]
  local last = redis.call("ZSCORE", KEY.instances, instance_id)
  local beat = last and math.max(now, tonumber(last) + 1) or now
  redis.call("ZADD", KEY.instances, beat, instance_id)
  answers[#answers + 1] = cmsgpack.pack({ "ENLISTED", beat })
end
return answers
