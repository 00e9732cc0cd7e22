#!lua flags=allow-oom
--[[ drop_session: a session is over, and cannot be taken over any more. Whose it was and its numbers stay for their
  time: a late job of it must not get a number that a node has seen.
  KEYS  session · heard
  ARGV  now_ms rules, then for each: { owner }
  OUT   DROPPED existed | SESSION_TAKEN                                                                             ]]
local answers = {}

for i = 3, #ARGV do
  local owner = cmsgpack.unpack(ARGV[i])[1]
  local holder, answer = redis.call("HGET", KEY.session, "owner"), { "SESSION_TAKEN" }
  if not holder or holder == owner then
    redis.call("UNLINK", KEY.heard)
    answer = { "DROPPED", redis.call("UNLINK", KEY.session) == 1 }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
