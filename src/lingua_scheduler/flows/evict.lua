#!lua flags=allow-oom
--[[ evict: the operator throws a node out. Its work goes to others at once, at no cost; only resume brings it back.
  KEYS  nodes · standing · room · pairs · intents · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id }
  OUT   MARKED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, mark, move_leases_on, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id = cmsgpack.unpack(ARGV[i])[1]
  answers[#answers + 1] = mark(node_id, "evicted", now, rules)
  move_leases_on(node_id, CAUSE.evicted, CAUSE.evicted, -1, now, rules)
end
write_tally()
return answers
