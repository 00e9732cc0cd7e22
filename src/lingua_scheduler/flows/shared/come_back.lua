-- A node that was lost in silence serves again once it has been heard and has confirmed everything; one that lost its
-- socket must register. One that falls silent too often rests first. Says whether it came back.
local function come_back(node_id, node, now, rules)
  local lost_at = node[NODE.lost_at_ms]
  if lost_at == 0 or node[NODE.limbo] > 0 or node[NODE.away_until_ms] > 0 or node[NODE.seen_at_ms] < lost_at then
    return false
  end
  -- include: damp
  node[NODE.lost_at_ms] = 0
  damp(node_id, node, now, rules)
  return true
end
