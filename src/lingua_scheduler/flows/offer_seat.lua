#!lua
--[[ offer_seat: a link comes to stand for a seat, once, for a while.
  KEYS  link
  ARGV  now_ms rules, then for each: { name reads_only for_ms }
  OUT   OFFERED                                                                                                     ]]
local answers = {}

for i = 3, #ARGV do
  local name, reads_only, for_ms = unpack(cmsgpack.unpack(ARGV[i]))
  redis.call("SET", KEY.link, cmsgpack.pack({ name, reads_only }), "PX", for_ms)
  answers[#answers + 1] = cmsgpack.pack({ "OFFERED" })
end
return answers
