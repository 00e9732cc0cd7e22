-- Write down the operator's intent for a node, and answer with it.
-- include: node_at, put_node, restand
local function mark(node_id, intent, now, rules)
  local node = node_at(node_id)
  if not node then
    return cmsgpack.pack({ "UNKNOWN_NODE" })
  end
  node[NODE.intent] = intent
  restand(node, now, rules)
  put_node(node_id, node)
  return cmsgpack.pack({ "MARKED", intent, node[NODE.standing], node[NODE.used] })
end
