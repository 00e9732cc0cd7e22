-- A full cell forgets nodes that are gone, the one that is gone for longest first, until it has room for another. One
-- that still speaks is not gone, nor is one that still has time to confirm that it stopped. Says whether there is room.
-- include: node_at
local function make_room(now, rules)
  local missing = redis.call("HLEN", KEY.nodes) - rules[RULE.cell_capacity] + 1
  if missing <= 0 then
    return true
  end
  -- include: forget_node
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", KEY.due, DUE.gone, "+inf", "LIMIT", 0, MADE_ROOM.most)) do
    local node_id = string.sub(member, 3)
    local node = node_at(node_id)
    local is_silent = node[NODE.seen_at_ms] <= node[NODE.lost_at_ms]
    if missing > 0 and is_silent and (node[NODE.used] == 0 or node[NODE.cut_off] == 1) then
      forget_node(node_id, node, now, rules)
      missing = missing - 1
    end
  end
  return missing == 0
end
