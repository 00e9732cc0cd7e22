-- What an operator wanted of a node that was gone, and how many slots it was to have at most; from here on its record
-- says it.
local function take_intent(node_id)
  local packed = redis.call("HGET", KEY.intents, node_id)
  if not packed then
    return "active", 0
  end
  redis.call("HDEL", KEY.intents, node_id)
  redis.call("ZREM", KEY.due, "i:" .. node_id)
  local kept = cmsgpack.unpack(packed)
  return kept[INTENT.intent], kept[INTENT.limit]
end
