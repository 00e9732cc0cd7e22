#!lua flags=allow-oom
--[[ drain: the operator wants no new work on a node; what runs there ends in peace. Only resume undoes it.
  KEYS  nodes · standing · room · groups · pairs · intents · jobs · leases · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id }
  OUT   INTENDED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, set_intent, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  answers[#answers + 1] = set_intent(cmsgpack.unpack(ARGV[i])[1], "draining", now, rules)
  serve(now)
end
write_tally()
return answers
