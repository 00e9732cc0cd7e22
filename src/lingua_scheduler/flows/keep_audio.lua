#!lua flags=allow-oom
--[[ keep_audio: its owner needs the audio for longer. It is never kept shorter than was said before.
  KEYS  audio
  ARGV  now_ms rules, then for each: { owner for_ms }                                                    (from now on)
  OUT   KEPT | UNKNOWN_AUDIO                                                                                        ]]
local answers = {}

for i = 3, #ARGV do
  local owner, for_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local answer = "UNKNOWN_AUDIO"
  if redis.call("HGET", KEY.audio, "owner") == owner then
    redis.call("PEXPIRE", KEY.audio, for_ms, "GT")
    answer = "KEPT"
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
