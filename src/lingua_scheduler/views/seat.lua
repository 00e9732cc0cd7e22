#!lua flags=no-writes
--[[ seat: who has a seat, and until when.
  KEYS  seat
  ARGV  now_ms rules, then for each: { }
  OUT   SEAT { seat }                                                                            (none: nobody has) ]]
local answers = {}

for _ = 3, #ARGV do
  local kept = redis.call("GET", KEY.seat)
  answers[#answers + 1] = cmsgpack.pack({ "SEAT", kept and { cmsgpack.unpack(kept) } or {} })
end
return answers
