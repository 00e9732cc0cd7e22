-- What the operator wants of a node that is gone stays with its name for a while, for when it comes back.
local function keep_intent(node_id, intent, limit, now, rules)
  if intent ~= "active" or limit > 0 then
    redis.call("HSET", KEY.intents, node_id, cmsgpack.pack({ intent, limit }))
    redis.call("ZADD", KEY.due, DUE.forget + now + rules[RULE.intent_ttl_ms], "i:" .. node_id)
  end
end
