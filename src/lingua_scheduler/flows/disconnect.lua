#!lua flags=allow-oom
--[[ disconnect: a node's socket is closed. It has a short grace to come back, a longer one when the scheduler itself
  closed it; its jobs stay with it meanwhile. One that was hung up on because it did not answer is silent, in its grace
  and behind it. The close of a connection that was replaced changes nothing.
  KEYS  nodes · profiles · standing · room · due
  ARGV  now_ms rules, then for each: { node_id connection how }          (how: closed, handover, unheard)
  OUT   AWAY until_ms (in the past, or 0: it was lost already) | REPLACED | UNKNOWN_NODE                           ]]
-- include: clock, node_at, put_node, restand, look_again, flap
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id, connection, how = unpack(cmsgpack.unpack(ARGV[i]))
  local node = node_at(node_id)
  local answer = { "UNKNOWN_NODE" }
  if node then
    local profile = cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id))
    if profile[PROFILE.connection] ~= connection then
      answer = { "REPLACED" }
    else
      if node[NODE.away_until_ms] == 0 and node[NODE.lost_at_ms] == 0 then
        local grace_ms = rules[RULE.handover_grace_ms]
        if how == "closed" then
          grace_ms = rules[RULE.reconnect_grace_ms]
          flap(node, now, rules)
        elseif how == "unheard" then
          -- Until everybody was asked it is not known how many are silent.
          grace_ms = math.max(grace_ms, rules[RULE.ping_interval_ms])
        end
        node[NODE.away_until_ms] = now + grace_ms
        node[NODE.unheard] = how == "unheard" and 1 or 0
        restand(node, now, rules)
        put_node(node_id, node)
        look_again(node_id, node, now, rules)
      end
      answer = { "AWAY", node[NODE.away_until_ms] }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
