-- The node no longer works on a fenced attempt: its slot is free. A lost node that has confirmed everything serves
-- again. Says whether there was such a limbo; writing the node is the caller's.
-- include: free_slot, restand
local function end_limbo(node, lease, now, rules)
  if redis.call("HDEL", KEY.limbo, lease) == 0 then
    return false
  end
  redis.call("ZREM", KEY.due, "l:" .. lease)
  node[NODE.limbo] = node[NODE.limbo] - 1
  free_slot(node, lease)
  if node[NODE.limbo] == 0 and node[NODE.seen_at_ms] > node[NODE.lost_at_ms] then
    node[NODE.lost_at_ms] = 0
  end
  restand(node, now, rules)
  return true
end
