#!lua flags=allow-oom
--[[ vanish: an instance ends, and says so. Only what it said last itself is taken back: another process may be there
  under its name by now.
  KEYS  presence
  ARGV  now_ms rules, then for each: presence                                       (presence: as it last appeared)
  OUT   VANISHED was_there                                                                                          ]]
local answers = {}

for i = 3, #ARGV do
  local was_there = redis.call("GET", KEY.presence) == ARGV[i]
  if was_there then
    redis.call("DEL", KEY.presence)
  end
  answers[#answers + 1] = cmsgpack.pack({ "VANISHED", was_there })
end
return answers
