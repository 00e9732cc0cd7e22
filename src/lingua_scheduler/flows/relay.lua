#!lua flags=allow-oom
--[[ relay: confirm what was handed over, take the next entries of the outbox. What is taken comes back after
  `relay_lease_ms` unless it is confirmed: at least once, whoever dies. An offer that has gone by is dropped: carried to
  its node late, it would begin work for which there may be no slot any more.
  KEYS  jobs · outbox
  ARGV  now_ms rules, then for each: { limit { entries handed over } }
  OUT   TAKEN { entries }                                                                                          ]]
-- include: clock
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

local function has_gone_by(event)
  if event[EVENT.kind] ~= "reserved" then
    return false
  end
  local packed = redis.call("HGET", KEY.jobs, event[EVENT.job])
  local job = packed and cmsgpack.unpack(packed)
  return not job or job[JOB.state] ~= "RESERVED" or job[JOB.attempt] ~= event[EVENT.attempt]
end

for i = 3, #ARGV do
  local limit, handed_over = unpack(cmsgpack.unpack(ARGV[i]))
  for _, event in ipairs(handed_over) do
    redis.call("ZREM", KEY.outbox, cmsgpack.pack(event))
  end
  local taken = {}
  for _, packed in ipairs(redis.call("ZRANGEBYSCORE", KEY.outbox, "-inf", now, "LIMIT", 0, limit)) do
    local event = cmsgpack.unpack(packed)
    if has_gone_by(event) then
      redis.call("ZREM", KEY.outbox, packed)
    else
      redis.call("ZADD", KEY.outbox, now + rules[RULE.relay_lease_ms], packed)
      taken[#taken + 1] = event
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "TAKEN", taken })
end
return answers
