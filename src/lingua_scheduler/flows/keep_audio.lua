#!lua flags=allow-oom
--[[ keep_audio: somebody needs the audio for longer. It is never kept shorter than was said before.
  KEYS  audio
  ARGV  now_ms rules, then for each: { for_ms }                                                          (from now on)
  OUT   KEPT | UNKNOWN_AUDIO                                                                                        ]]
local answers = {}

for i = 3, #ARGV do
  local for_ms = cmsgpack.unpack(ARGV[i])[1]
  redis.call("PEXPIRE", KEY.audio, for_ms, "GT")
  answers[#answers + 1] = cmsgpack.pack({ redis.call("EXISTS", KEY.audio) == 1 and "KEPT" or "UNKNOWN_AUDIO" })
end
return answers
