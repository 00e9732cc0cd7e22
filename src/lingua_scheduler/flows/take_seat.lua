#!lua
--[[ take_seat: somebody shows a link, and has its seat for a while. The link is used up.
  KEYS  link · seat
  ARGV  now_ms rules, then for each: { digest for_ms }                              (digest: of the secret he is given)
  OUT   SEATED name reads_only until_ms | LINK_GONE                                                                 ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local digest, for_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local link, answer = redis.call("GET", KEY.link), { "LINK_GONE" }
  if link then
    local name, reads_only = unpack(cmsgpack.unpack(link))
    local until_ms = now + for_ms
    redis.call("DEL", KEY.link)
    redis.call("SET", KEY.seat, cmsgpack.pack({ name, reads_only, digest, until_ms }), "PX", for_ms)
    answer = { "SEATED", name, reads_only, until_ms }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
