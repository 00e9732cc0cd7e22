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
  -- include: take_intent, keep_intent
  local before, limit = take_intent(node_id)
  if before == "active" and limit == 0 then
    return cmsgpack.pack({ "UNKNOWN_NODE" })
  end
  keep_intent(node_id, intent, limit, now, rules)
  return cmsgpack.pack({ "INTENDED", intent, STANDING.lost, 0 })
end
