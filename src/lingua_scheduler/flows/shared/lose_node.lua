-- A node is lost: it is not chosen any more, its work goes to others, and one day it is forgotten. At most `limit`
-- attempts a visit; the due-list comes back for the rest. Says how many were moved.
-- include: put_node, restand, move_leases_on, look_again, forget_node
local function lose_node(node_id, node, limit, now, rules)
  restand(node, now, rules)
  put_node(node_id, node)
  local moved = move_leases_on(node_id, CAUSE.lost_early, CAUSE.lost, limit, now, rules)
  local is_idle = node[NODE.used] == node[NODE.limbo]
  if is_idle and now - node[NODE.lost_at_ms] >= rules[RULE.node_record_ttl_ms] then
    forget_node(node_id, node, now, rules)
  else
    look_again(node_id, node, now, rules)
  end
  return moved
end
