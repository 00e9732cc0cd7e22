#!lua flags=allow-oom
--[[ leave_seat: whoever has a seat gives it up. One that has another secret by now is not his.
  KEYS  seat
  ARGV  now_ms rules, then for each: { digest }
  OUT   UNSEATED was_there                                                                                          ]]
local answers = {}

for i = 3, #ARGV do
  local digest, kept = unpack(cmsgpack.unpack(ARGV[i])), redis.call("GET", KEY.seat)
  local is_his = kept and cmsgpack.unpack(kept)[SEAT.digest] == digest or false
  if is_his then
    redis.call("DEL", KEY.seat)
  end
  answers[#answers + 1] = cmsgpack.pack({ "UNSEATED", is_his })
end
return answers
