-- An attempt on a node is over without a result: its slot is free, or in limbo until the node has confirmed; and what
-- tells against the node is noted.
-- include: node_at, put_node, free_slot, enter_limbo
local function give_up(node_id, lease, cause, now, rules)
  local node, is_suspect = node_at(node_id), false
  if cause.blames then
    -- include: blame
    is_suspect = blame(node_id, node, cause.name .. " " .. string.match(lease, ":(.+):"), now, rules)
  end
  if cause.limbo then
    enter_limbo(node, lease, now, rules)
  else
    free_slot(node, lease, now)
  end
  if is_suspect then
    -- include: restand, look_again
    restand(node, now, rules)
    look_again(node_id, node, now, rules)
  end
  put_node(node_id, node)
end
