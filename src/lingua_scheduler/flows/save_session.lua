#!lua flags=allow-oom
--[[ save_session: what a session needs to go on elsewhere, as the connection that owns it knows it. Who was succeeded
  by another connection is told so, and changes nothing. A session that is not there is saved only by its creator, or by
  whoever holds its state when the engine has lost it; its numbers go on from where he knows them. What was lent to it
  below that is its own. What was heard stays beside it until it is said that there is nothing.
  KEYS  entry · session · heard
  ARGV  now_ms rules, then for each: { principal owner token next create ttl_ms opened_ms is_silent front size } state
        (is_silent: nothing was heard, or all of it has its jobs by now; front, size: what must be kept of it, since
         when and how many bytes, 0 = it does not matter)
  OUT   SAVED | FORBIDDEN | SESSION_TAKEN | INVALID_SESSION | UNKNOWN_AUDIO                                         ]]
-- include: put_session, is_kept
local answers = {}

for i = 3, #ARGV, 2 do
  local item, state = cmsgpack.unpack(ARGV[i]), ARGV[i + 1]
  local ttl_ms, is_silent, front, size, answer = item[6], item[8], item[9], item[10], "UNKNOWN_AUDIO"
  if size == 0 or is_kept(front, size) then
    answer = put_session(state, unpack(item))
  end
  if answer == "SAVED" and is_silent then
    redis.call("UNLINK", KEY.heard)
  elseif answer == "SAVED" and size > 0 then
    redis.call("PEXPIRE", KEY.heard, ttl_ms)
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
