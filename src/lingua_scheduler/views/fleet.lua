#!lua flags=no-writes
--[[ fleet: how many jobs have a node now, and how many wait for one, at one instant. No job is both.
  KEYS  leases · limbo · queue
  ARGV  now_ms rules, then for each: { }
  OUT   FLEET now_ms in_flight waiting                                                                             ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for _ = 3, #ARGV do
  local in_flight = redis.call("ZCARD", KEY.leases) - redis.call("HLEN", KEY.limbo)
  answers[#answers + 1] = cmsgpack.pack({ "FLEET", now, in_flight, redis.call("ZLEXCOUNT", KEY.queue, "[w", "(x") })
end
return answers
