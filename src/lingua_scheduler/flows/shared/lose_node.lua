-- A node is lost: it is not chosen any more, its work goes to others, and one day it is forgotten. At most `limit`
-- attempts a visit; the due-list comes back for the rest. Says how many were moved.
-- include: put_node, restand, move_leases_on, look_again
local function lose_node(node_id, node, limit, now, rules)
  restand(node, now, rules)
  put_node(node_id, node)
  local moved = move_leases_on(node_id, CAUSE.lost_early, CAUSE.lost, limit, now, rules)
  look_again(node_id, node, now, rules)
  return moved
end
