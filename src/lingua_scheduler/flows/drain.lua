#!lua flags=allow-oom
--[[ drain: the operator wants no new work on a node; what runs there ends in peace. Only resume undoes it.
  KEYS  nodes · standing · room · intents · due
  ARGV  now_ms rules, then for each: { node_id }
  OUT   MARKED intent standing used | UNKNOWN_NODE                                                                 ]]
-- include: clock, mark
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  answers[#answers + 1] = mark(cmsgpack.unpack(ARGV[i])[1], "draining", now, rules)
end
return answers
