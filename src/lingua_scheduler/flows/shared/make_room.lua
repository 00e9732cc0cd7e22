-- A full cell forgets nodes that are gone, the one that is gone for longest first, until it has room for another; or
-- none, if not enough of them can go. One that spoke a moment ago is not gone, nor is one that still has time to
-- confirm that it stopped; one that never confirmed goes when no other can. Says whether there is room.
-- include: node_at, leases_of
local function make_room(now, rules)
  local missing = redis.call("HLEN", KEY.nodes) - rules[RULE.cell_capacity] + 1
  if missing <= 0 then
    return true
  end
  if missing > MADE_ROOM.most then
    return false
  end

  local function may_confirm(node_id)
    for _, entry in ipairs(leases_of(node_id)) do
      if redis.call("ZSCORE", KEY.due, "l:" .. entry[1]) then
        return true
      end
    end
    return false
  end

  local leaving, doubtful, most = {}, {}, missing + MADE_ROOM.passed_over
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", KEY.due, DUE.gone, "+inf", "LIMIT", 0, most)) do
    local node_id = string.sub(member, 3)
    local node = node_at(node_id)
    local seen_at = node[NODE.seen_at_ms]
    if seen_at <= node[NODE.lost_at_ms] or now >= seen_at + rules[RULE.offline_ms] then
      if node[NODE.used] == 0 then
        leaving[#leaving + 1] = node_id
      elseif not may_confirm(node_id) then
        doubtful[#doubtful + 1] = node_id
      end
    end
  end
  for _, node_id in ipairs(doubtful) do
    leaving[#leaving + 1] = node_id
  end
  if #leaving < missing then
    return false
  end
  -- include: forget_node
  for n = 1, missing do
    forget_node(leaving[n], node_at(leaving[n]), now, rules)
  end
  return true
end
