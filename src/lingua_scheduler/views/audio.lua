#!lua flags=no-writes
--[[ audio: what is kept under a ref.
  KEYS  audio
  ARGV  now_ms rules, then for each: { }
  OUT   AUDIO owner media audio | UNKNOWN_AUDIO                                                                     ]]
-- include: binary
local answers = {}

for _ = 3, #ARGV do
  local owner, media, audio = unpack(redis.call("HMGET", KEY.audio, "owner", "media", "audio"))
  local answer = cmsgpack.pack({ "UNKNOWN_AUDIO" })
  if owner then
    -- An array of four, by hand for the sake of its last part.
    answer = "\148" .. cmsgpack.pack("AUDIO", owner, media) .. binary(audio)
  end
  answers[#answers + 1] = answer
end
return answers
