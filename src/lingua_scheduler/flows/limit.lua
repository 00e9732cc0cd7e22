#!lua flags=allow-oom
--[[ limit: the operator lets a node have no more than so many slots, whatever it says itself; or as many as it says.
  What it already holds above that stays until it ends. Of a node that is gone it stays with the name.
  KEYS  nodes · standing · room · groups · pairs · intents · jobs · leases · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id limit }                      (limit 0 = none)
  OUT   LIMITED max own_max | UNKNOWN_NODE                                  (of one that is gone: limit 0)           ]]
-- include: clock, node_at, put_node, restand, slots_of, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id, limit = unpack(cmsgpack.unpack(ARGV[i]))
  local node = node_at(node_id)
  local answer = { "UNKNOWN_NODE" }
  if node then
    node[NODE.limit] = limit
    node[NODE.max] = slots_of(node)
    node[NODE.ceiling] = math.max(node[NODE.max], node[NODE.used])
    restand(node, now, rules)
    put_node(node_id, node)
    answer = { "LIMITED", node[NODE.max], node[NODE.own_max] }
  else
    -- include: take_intent, keep_intent
    local intent, before = take_intent(node_id)
    if intent ~= "active" or before > 0 then
      keep_intent(node_id, intent, limit, now, rules)
      answer = { "LIMITED", limit, 0 }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
