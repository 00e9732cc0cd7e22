#!lua flags=allow-oom
--[[ erase_audio: nobody needs the audio any more.
  KEYS  audio
  ARGV  now_ms rules, then for each: { }
  OUT   ERASED existed                                                                                              ]]
local answers = {}

for _ = 3, #ARGV do
  answers[#answers + 1] = cmsgpack.pack({ "ERASED", redis.call("UNLINK", KEY.audio) == 1 })
end
return answers
