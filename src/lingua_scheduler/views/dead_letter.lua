#!lua flags=no-writes
--[[ dead_letter: a letter that nobody could make use of, and why.
  KEYS  dead
  ARGV  now_ms rules, then for each: { letter_id }
  OUT   DEAD_LETTER dead_letter | UNKNOWN_LETTER                                                                    ]]
local answers = {}

for i = 3, #ARGV do
  local dead = redis.call("HGET", KEY.dead, cmsgpack.unpack(ARGV[i])[1])
  answers[#answers + 1] = cmsgpack.pack(dead and { "DEAD_LETTER", cmsgpack.unpack(dead) } or { "UNKNOWN_LETTER" })
end
return answers
