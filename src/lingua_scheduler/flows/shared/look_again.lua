-- Enter a node in the due-list for the next moment at which time alone changes something about it. Of a lost one that
-- still has current attempts, that is now; else it is only to be forgotten, later if it has yet to confirm something.
local function look_again(node_id, node, now, rules)
  local at
  if node[NODE.lost_at_ms] > 0 then
    at = now
    if node[NODE.used] == node[NODE.limbo] then
      at = DUE.gone + math.max(now, node[NODE.lost_at_ms] + rules[RULE.node_record_ttl_ms])
      at = at + (node[NODE.used] > 0 and rules[RULE.limbo_ttl_ms] or 0)
    end
  elseif node[NODE.away_until_ms] > 0 then
    at = node[NODE.away_until_ms]
  else
    local stale_at = node[NODE.seen_at_ms] + rules[RULE.stale_ms]
    at = stale_at > now and stale_at or node[NODE.seen_at_ms] + rules[RULE.offline_ms]
    for _, moment in ipairs({ node[NODE.rest_until_ms], node[NODE.probe_at_ms] }) do
      if moment > now and moment < at then
        at = moment
      end
    end
  end
  redis.call("ZADD", KEY.due, at, "n:" .. node_id)
end
