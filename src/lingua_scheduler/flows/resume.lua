#!lua flags=allow-oom
--[[ resume: the operator wants a drained or evicted node to work again.
  KEYS  nodes · standing · room · pairs · intents · jobs · leases · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id }
  OUT   MARKED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, mark, serve, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  answers[#answers + 1] = mark(cmsgpack.unpack(ARGV[i])[1], "active", now, rules)
  serve(now)
end
write_tally()
return answers
