#!lua flags=allow-oom
--[[ relay: confirm what was handed over, take the next entries of the outbox. What is taken comes back after
  `relay_lease_ms` unless it is confirmed: at least once, whoever dies.
  ARGV  now_ms rules, then for each: { limit { entries handed over } }
  OUT   TAKEN { entries }                                                                                          ]]
-- include: clock
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local limit, handed_over = unpack(cmsgpack.unpack(ARGV[i]))
  for _, event in ipairs(handed_over) do
    redis.call("ZREM", KEY.outbox, cmsgpack.pack(event))
  end
  local events = redis.call("ZRANGEBYSCORE", KEY.outbox, "-inf", now, "LIMIT", 0, limit)
  for n, event in ipairs(events) do
    redis.call("ZADD", KEY.outbox, now + rules[RULE.relay_lease_ms], event)
    events[n] = cmsgpack.unpack(event)
  end
  answers[#answers + 1] = cmsgpack.pack({ "TAKEN", events })
end
return answers
