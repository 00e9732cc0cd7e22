-- Judge anew whether a node can be chosen: exactly one answer, the first that holds. One that may be dead is called
-- that, whatever was said of it before; in a grace it is not dead, but for one that was silent before it began.
-- include: by_load
local function restand(node, now, rules)
  local standing
  if node[NODE.lost_at_ms] > 0 then
    standing = STANDING.lost
  elseif node[NODE.away_until_ms] > 0 then
    standing = node[NODE.unheard] == 1 and STANDING.stale or STANDING.not_ready
  elseif now - node[NODE.seen_at_ms] >= rules[RULE.stale_ms] then
    standing = STANDING.stale
  elseif node[NODE.intent] ~= "active" then
    standing = STANDING.draining
  elseif node[NODE.reported] ~= "ready" or node[NODE.cut_off] == 1 then
    standing = STANDING.not_ready
  elseif node[NODE.rest_until_ms] > now then
    standing = STANDING.resting
  else
    standing = by_load(node, now)
  end
  node[NODE.standing] = standing
end
