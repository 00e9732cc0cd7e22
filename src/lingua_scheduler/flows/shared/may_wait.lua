-- Whether one job more may wait: somewhere in the queue each one of them stands once in the list of its pair.
local function may_wait(packed_rules)
  return redis.call("ZLEXCOUNT", KEY.queue, "[w", "(x") < cmsgpack.unpack(packed_rules)[RULE.max_waiting]
end
