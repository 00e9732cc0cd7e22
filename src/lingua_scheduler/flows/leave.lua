#!lua flags=allow-oom
--[[ leave: a node says that it is gone. It is out of its pools at once; what it had goes to others.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · intents · jobs · guests · leases ·
        limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id epoch }                      (epoch "" = not told)
  OUT   LEFT moved | UNKNOWN_NODE | STALE_ATTEMPT                                                                  ]]
-- include: clock, node_at, put_node, restand, move_leases_on, forget_node, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id, epoch = unpack(cmsgpack.unpack(ARGV[i]))
  local node = node_at(node_id)
  local answer
  if not node then
    answer = { "UNKNOWN_NODE" }
  elseif epoch ~= "" and epoch ~= node[NODE.epoch] then
    answer = { "STALE_ATTEMPT" }
  else
    local moved = node[NODE.used] - node[NODE.limbo]
    node[NODE.reported] = "offline"
    restand(node, now, rules)
    put_node(node_id, node)
    move_leases_on(node_id, CAUSE.left_early, CAUSE.left, -1, now, rules)
    forget_node(node_id, node, now, rules)
    answer = { "LEFT", moved }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
