#!lua flags=allow-oom
--[[ evict: the operator throws a node out. Its work goes to others at once, at no cost; only resume brings it back.
  KEYS  nodes · standing · room · groups · pairs · intents · jobs · guests · leases · limbo · queue · due · outbox ·
        counts
  ARGV  now_ms rules, then for each: { node_id }
  OUT   INTENDED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, set_intent, move_leases_on, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id = cmsgpack.unpack(ARGV[i])[1]
  answers[#answers + 1] = set_intent(node_id, "evicted", now, rules)
  move_leases_on(node_id, CAUSE.evicted, CAUSE.evicted, -1, now, rules)
  serve(now)
end
write_tally()
return answers
