#!lua flags=allow-oom
--[[ doubt: another server serves the cell than before, and may have forgotten what the last one knew. Nobody is chosen
  until he was heard of anew: each node has the time of a handover to come back, and keeps its jobs meanwhile. Whoever
  says so because he had lost his server has things to tell that he could not: until then no job is taken for late.
  A page at a time. The reign is known with the last page: until then whoever comes begins anew, and serves nobody.
  KEYS  nodes · standing · room · due · counts
  ARGV  now_ms rules, then for each: { reign is_back cursor count }                     (a number, never 0; cursor: "0"
                                                                                         at first, then where to go on)
  OUT   DOUBTED nodes next                 (0: it is the same reign, the first one, or the cell is not begun yet;
                                            next: the cursor of the next page, "" if this was the last)             ]]
-- include: clock, node_at, put_node, restand, look_again
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local reign, is_back, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local doubted, next_cursor = 0, ""
  local schema, known = unpack(redis.call("HMGET", KEY.counts, "schema", "reign"))
  if schema and tonumber(known) ~= reign then
    local page = known and redis.call("HSCAN", KEY.nodes, cursor, "COUNT", count) or { "0", {} }
    for n = 1, #page[2], 2 do
      local node_id = page[2][n]
      glanced[node_id] = page[2][n + 1]
      local node = node_at(node_id)
      if node[NODE.away_until_ms] == 0 and node[NODE.lost_at_ms] == 0 then
        node[NODE.away_until_ms] = now + rules[RULE.handover_grace_ms]
        restand(node, now, rules)
        put_node(node_id, node)
        look_again(node_id, node, now, rules)
        doubted = doubted + 1
      end
    end
    if page[1] == "0" then
      redis.call("HSET", KEY.counts, "reign", reign)
    else
      next_cursor = page[1]
    end
  end
  if schema and is_back then
    redis.call("HSET", KEY.counts, "listening", now + rules[RULE.confirm_after_ms])
  end
  answers[#answers + 1] = cmsgpack.pack({ "DOUBTED", doubted, next_cursor })
end
return answers
