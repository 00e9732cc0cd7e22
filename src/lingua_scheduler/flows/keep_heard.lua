#!lua
--[[ keep_heard: as save_session, with what the session has heard and may have no job yet: audio that goes on from
  `start`, where what is kept since `front` ends, or is all there is. Whoever goes on elsewhere gets both together.
  KEYS  entry · session · heard
  ARGV  now_ms rules, then for each: { principal owner token next create ttl_ms opened_ms front start } state audio
  OUT   SAVED | FORBIDDEN | SESSION_TAKEN | INVALID_SESSION | UNKNOWN_AUDIO                                         ]]
-- include: put_session, is_kept
local answers = {}

for i = 3, #ARGV, 3 do
  local item, state, audio = cmsgpack.unpack(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local ttl_ms, front, start, answer = item[6], item[8], item[9], "UNKNOWN_AUDIO"
  if start == 0 or is_kept(front, start) then
    answer = put_session(state, unpack(item))
  end
  if answer == "SAVED" and start == 0 then
    redis.call("SET", KEY.heard, audio, "PX", ttl_ms)
    redis.call("HSET", KEY.session, "heard", string.format("%.0f", front))
  elseif answer == "SAVED" then
    redis.call("APPEND", KEY.heard, audio)
    redis.call("PEXPIRE", KEY.heard, ttl_ms)
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
