#!lua flags=allow-oom
--[[ resume: the operator wants a drained or evicted node to work again.
  KEYS  nodes · standing · room · groups · pairs · intents · jobs · leases · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id }
  OUT   INTENDED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, set_intent, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  answers[#answers + 1] = set_intent(cmsgpack.unpack(ARGV[i])[1], "active", now, rules)
  serve(now)
end
write_tally()
return answers
