#!lua flags=allow-oom
--[[ unbury: a dead letter was replayed, or nobody wants it any more.
  KEYS  dead · dead_ids
  ARGV  now_ms rules, then for each: { letter_id }
  OUT   UNBURIED | UNKNOWN_LETTER                                                                                   ]]
local answers = {}

for i = 3, #ARGV do
  local letter_id = cmsgpack.unpack(ARGV[i])[1]
  redis.call("ZREM", KEY.dead_ids, letter_id)
  local was_there = redis.call("HDEL", KEY.dead, letter_id) == 1
  answers[#answers + 1] = cmsgpack.pack({ was_there and "UNBURIED" or "UNKNOWN_LETTER" })
end
return answers
