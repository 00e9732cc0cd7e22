-- A full cell forgets nodes that are gone, the one that is gone for longest first, until it has room for another; or
-- none, if not enough of them can go. One that still speaks is not gone, nor is one that still has time to confirm that
-- it stopped: those stand behind the others. Says whether there is room.
-- include: node_at, leases_of
local function make_room(now, rules)
  local missing = redis.call("HLEN", KEY.nodes) - rules[RULE.cell_capacity] + 1
  if missing <= 0 then
    return true
  end

  local function may_confirm(node_id)
    for _, entry in ipairs(leases_of(node_id)) do
      if redis.call("ZSCORE", KEY.due, "l:" .. entry[1]) then
        return true
      end
    end
    return false
  end

  local leaving, most = {}, missing + MADE_ROOM.passed_over
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", KEY.due, DUE.gone, "+inf", "LIMIT", 0, most)) do
    local node_id = string.sub(member, 3)
    local node = node_at(node_id)
    local is_silent = node[NODE.seen_at_ms] <= node[NODE.lost_at_ms]
    if #leaving < missing and is_silent and not may_confirm(node_id) then
      leaving[#leaving + 1] = node_id
    end
  end
  if #leaving < missing then
    return false
  end
  -- include: forget_node
  for _, node_id in ipairs(leaving) do
    forget_node(node_id, node_at(node_id), now, rules)
  end
  return true
end
