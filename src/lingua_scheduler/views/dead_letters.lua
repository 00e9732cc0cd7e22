#!lua flags=no-writes
--[[ dead_letters: a page of the dead letters, by id, and how many there are.
  KEYS  dead · dead_ids
  ARGV  now_ms rules, then for each: { after limit }                                          (after "": from the first)
  OUT   DEAD_LETTERS { letter_id dead_letter } total                                                                ]]
local answers = {}

for i = 3, #ARGV do
  local after, limit = unpack(cmsgpack.unpack(ARGV[i]))
  local from, found = after == "" and "-" or "(" .. after, {}
  for _, letter_id in ipairs(redis.call("ZRANGE", KEY.dead_ids, from, "+", "BYLEX", "LIMIT", 0, limit)) do
    found[#found + 1] = { letter_id, cmsgpack.unpack(redis.call("HGET", KEY.dead, letter_id)) }
  end
  answers[#answers + 1] = cmsgpack.pack({ "DEAD_LETTERS", found, redis.call("ZCARD", KEY.dead_ids) })
end
return answers
