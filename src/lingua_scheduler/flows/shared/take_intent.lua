-- What an operator wanted of a node that was gone; from here on its record says it.
local function take_intent(node_id)
  local intent = redis.call("HGET", KEY.intents, node_id)
  if not intent then
    return "active"
  end
  redis.call("HDEL", KEY.intents, node_id)
  redis.call("ZREM", KEY.due, "i:" .. node_id)
  return intent
end
