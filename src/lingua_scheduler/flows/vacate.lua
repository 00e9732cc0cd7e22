#!lua flags=allow-oom
--[[ vacate: a node that is not in its cell, and of which nothing is remembered there, is not let in any more by who was
  sent to the cell with this stamp or an earlier one. Then its home may be forgotten.
  KEYS  nodes · intents · departed · due
  ARGV  now_ms rules, then for each: { node_id stamp }
  OUT   VACATED | OCCUPIED                                                                                          ]]
-- include: clock, shut_out
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local node_id, stamp = unpack(cmsgpack.unpack(ARGV[i]))
  local answer = { "OCCUPIED" }
  if redis.call("HEXISTS", KEY.nodes, node_id) == 0 and redis.call("HEXISTS", KEY.intents, node_id) == 0 then
    shut_out(node_id, stamp, now)
    answer = { "VACATED" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
