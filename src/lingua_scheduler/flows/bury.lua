#!lua flags=allow-oom
--[[ bury: nobody could make use of a letter. It is kept with the reason until somebody replays or deletes it. Whoever
  buries the same letter again changes nothing.
  KEYS  dead · dead_ids
  ARGV  now_ms rules, then for each: { letter_id { instance reason deliveries letter } }
  OUT   BURIED is_new                                                                                               ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local letter_id, dead = unpack(cmsgpack.unpack(ARGV[i]))
  dead[#dead + 1] = now
  redis.call("ZADD", KEY.dead_ids, 0, letter_id)
  local is_new = redis.call("HSETNX", KEY.dead, letter_id, cmsgpack.pack(dead)) == 1
  answers[#answers + 1] = cmsgpack.pack({ "BURIED", is_new })
end
return answers
