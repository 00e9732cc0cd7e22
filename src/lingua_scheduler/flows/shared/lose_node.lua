-- A node is lost: it is not chosen any more, its work goes to others, and one day it is forgotten. At most 64 attempts
-- a visit, so that a large node cannot hold up the engine; the due-list comes back for the rest.
-- include: put_node, restand, move_leases_on, look_again, forget_node
local function lose_node(node_id, node, now, rules)
  restand(node, now, rules)
  put_node(node_id, node)
  move_leases_on(node_id, CAUSE.lost_early, CAUSE.lost, 64, now, rules)
  local is_idle = node[NODE.used] == node[NODE.limbo]
  if is_idle and now - node[NODE.lost_at_ms] >= rules[RULE.node_record_ttl_ms] then
    forget_node(node_id, node, now, rules)
  else
    look_again(node_id, node, now, rules)
  end
end
