#!lua flags=no-writes
--[[ silence: how many nodes of a cell are silent, and how many are heard.
  KEYS  nodes
  ARGV  now_ms rules, then for each: { }
  OUT   SILENCE silent heard                                                                                        ]]
-- include: clock, who_is_heard
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "SILENCE", who_is_heard(now, rules) })
end
return answers
