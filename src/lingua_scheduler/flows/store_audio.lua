#!lua
--[[ store_audio: audio is kept under its own name, for a while. Whoever stored it may store it again, and nobody else.
  What is stored again keeps the longer of its times: a job may still need it.
  KEYS  audio
  ARGV  now_ms rules, then for each: { owner media ttl_ms } audio                         (audio: the bytes themselves)
  OUT   STORED | FORBIDDEN                                                                                          ]]
local answers = {}

for i = 3, #ARGV, 2 do
  local owner, media, ttl_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local known, answer = redis.call("HGET", KEY.audio, "owner"), "FORBIDDEN"
  if not known or known == owner then
    ttl_ms = math.max(ttl_ms, redis.call("PTTL", KEY.audio))
    redis.call("HSET", KEY.audio, "owner", owner, "media", media, "audio", ARGV[i + 1])
    redis.call("PEXPIRE", KEY.audio, ttl_ms)
    answer = "STORED"
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
