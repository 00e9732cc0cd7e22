#!lua flags=allow-oom
--[[ reap: settle everything overdue: acks, results, deadlines, silent nodes, graces, rests, limbo, retention.
  Bounded, and safe with any number of reapers: what one has settled is no longer due.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · intents · departed · jobs · guests ·
        leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { limit }
  OUT   SETTLED number more                                                                                        ]]
-- include: clock, settle, forget, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local limit = cmsgpack.unpack(ARGV[i])[1]
  local settled, more = settle(limit, now, rules)
  local forgotten, more_to_forget = forget(limit, now, rules)
  answers[#answers + 1] = cmsgpack.pack({ "SETTLED", settled + forgotten, more or more_to_forget })
end
write_tally()
return answers
