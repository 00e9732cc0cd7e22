-- The node no longer works on a fenced attempt: its slot is free. A lost node that has confirmed everything may serve
-- again; one that nobody has heard is gone, or has less to confirm. Says whether there was such a limbo; writing the
-- node is the caller's.
-- include: free_slot, restand, look_again, come_back
local function end_limbo(node_id, node, lease, now, rules)
  if redis.call("HDEL", KEY.limbo, lease) == 0 then
    return false
  end
  redis.call("ZREM", KEY.due, "l:" .. lease)
  node[NODE.limbo] = node[NODE.limbo] - 1
  free_slot(node, lease, now)
  if come_back(node_id, node, now, rules) or node[NODE.lost_at_ms] > 0 then
    look_again(node_id, node, now, rules)
  end
  restand(node, now, rules)
  return true
end
