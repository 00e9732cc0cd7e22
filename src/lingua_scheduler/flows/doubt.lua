#!lua flags=allow-oom
--[[ doubt: another server serves the cell than before, and may have forgotten what the last one knew. Nobody is chosen
  until he was heard of anew: each node has the time of a handover to come back, and keeps its jobs meanwhile. Whoever
  says so because he had lost his server has things to tell that he could not: until then no job is taken for late.
  KEYS  nodes · standing · room · due · counts
  ARGV  now_ms rules, then for each: { reign is_back }                                  (a number, never 0)
  OUT   DOUBTED nodes                      (0: it is the same reign, the first one, or the cell is not begun yet)   ]]
-- include: clock, node_at, put_node, restand, look_again
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local reign, is_back = unpack(cmsgpack.unpack(ARGV[i]))
  local doubted = 0
  local schema, known = unpack(redis.call("HMGET", KEY.counts, "schema", "reign"))
  if schema and tonumber(known) ~= reign then
    for _, node_id in ipairs(known and redis.call("HKEYS", KEY.nodes) or {}) do
      local node = node_at(node_id)
      if node[NODE.away_until_ms] == 0 and node[NODE.lost_at_ms] == 0 then
        node[NODE.away_until_ms] = now + rules[RULE.handover_grace_ms]
        restand(node, now, rules)
        put_node(node_id, node)
        look_again(node_id, node, now, rules)
        doubted = doubted + 1
      end
    end
    redis.call("HSET", KEY.counts, "reign", reign)
  end
  if schema and is_back then
    redis.call("HSET", KEY.counts, "listening", now + rules[RULE.confirm_after_ms])
  end
  answers[#answers + 1] = cmsgpack.pack({ "DOUBTED", doubted })
end
return answers
