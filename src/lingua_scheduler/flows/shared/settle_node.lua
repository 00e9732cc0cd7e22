-- Time has passed for a node: it rested enough, may be probed, fell stale, was lost, or is lost and still has attempts.
-- At most `limit` of them are moved; says how many were.
-- include: node_at, put_node, restand, look_again, lose_node, is_mass_silence, post
local function settle_node(node_id, limit, now, rules)
  local node = node_at(node_id)
  if node[NODE.lost_at_ms] > 0 then
    return lose_node(node_id, node, limit, now, rules)
  end
  -- A grace is a promise: within it, silence does not count. One that is silent is first called so, and only then given
  -- up, behind all that is overdue for longer.
  local away = node[NODE.away_until_ms]
  local gone_at = away > 0 and away or node[NODE.seen_at_ms] + rules[RULE.offline_ms]
  if now < gone_at or away == 0 and node[NODE.standing] ~= STANDING.stale then
    restand(node, now, rules)
    put_node(node_id, node)
    look_again(node_id, node, now, rules)
    if node[NODE.standing] == STANDING.suspect and now >= node[NODE.probe_at_ms] then
      -- It is to be tried again, busy as it is: somebody may be waiting for that.
      woken[#woken + 1] = node_id
    end
    if now >= gone_at then
      redis.call("ZADD", KEY.due, now, "n:" .. node_id)
    end
    return 0
  end
  -- include: flap, blame
  local is_silent = away == 0 or node[NODE.unheard] == 1
  if is_silent then
    -- We may be deaf, but not for ever. Who answers no ping is gone in less time than other cells take to tell how it
    -- is there: they are waited for.
    if now < gone_at + rules[RULE.mass_silence_ms] then
      local are_deaf, told_at = is_mass_silence(now, rules)
      if are_deaf or away > told_at and now < told_at + 20000 then
        redis.call("ZADD", KEY.due, now + 1000, "n:" .. node_id)
        return 0
      end
    end
    flap(node, now, rules)
  end
  blame(node_id, node, "lost", now, rules)
  node[NODE.lost_at_ms] = now
  post("lost", "", 0, node_id, node[NODE.epoch], is_silent and "silent" or "closed", now)
  return lose_node(node_id, node, limit, now, rules)
end
