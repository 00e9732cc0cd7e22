-- Write down the operator's intent for a node, and answer with it. Of a node that is gone it stays with the name.
-- include: node_at, put_node, restand
local function set_intent(node_id, intent, now, rules)
  local node = node_at(node_id)
  if node then
    node[NODE.intent] = intent
    restand(node, now, rules)
    put_node(node_id, node)
    return cmsgpack.pack({ "INTENDED", intent, node[NODE.standing], node[NODE.used] })
  end
  -- include: take_intent
  if take_intent(node_id) == "active" then
    return cmsgpack.pack({ "UNKNOWN_NODE" })
  end
  if intent ~= "active" then
    redis.call("HSET", KEY.intents, node_id, intent)
    redis.call("ZADD", KEY.due, DUE.forget + now + rules[RULE.intent_ttl_ms], "i:" .. node_id)
  end
  return cmsgpack.pack({ "INTENDED", intent, STANDING.lost, 0 })
end
