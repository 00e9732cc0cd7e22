#!lua flags=allow-oom
--[[ save_session: what a session needs to go on elsewhere, as the connection that owns it knows it. Who was succeeded
  by another connection is told so, and changes nothing. A session that is not there is saved only by its creator, or by
  whoever holds its state when the engine has lost it; its numbers go on from where he knows them. What was lent to it
  below that is its own. What was heard stays beside it until it is said that there is nothing.
  KEYS  entry · session · heard
  ARGV  now_ms rules, then for each: { principal owner token next create ttl_ms opened_ms is_silent } state
        (is_silent: nothing was heard, or all of it has its jobs by now)
  OUT   SAVED | FORBIDDEN | SESSION_TAKEN | INVALID_SESSION                                                         ]]
-- include: put_session
local answers = {}

for i = 3, #ARGV, 2 do
  local item, state = cmsgpack.unpack(ARGV[i]), ARGV[i + 1]
  local is_silent, answer = item[8], put_session(state, unpack(item))
  if answer == "SAVED" and is_silent then
    redis.call("UNLINK", KEY.heard)
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
