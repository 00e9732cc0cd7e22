#!lua flags=no-writes
--[[ silence: how many nodes of a cell are silent, and how many are heard.
  KEYS  standing · groups
  ARGV  now_ms rules, then for each: { }
  OUT   SILENCE silent heard                                                                                        ]]
-- include: who_is_heard
local answers = {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "SILENCE", who_is_heard() })
end
return answers
