#!lua flags=allow-oom
--[[ save_session: what a session needs to go on elsewhere, as the connection that owns it knows it. Who was succeeded
  by another connection is told so, and changes nothing. A session that is not there is saved only by its creator, or by
  whoever holds its state when the engine has lost it; its numbers go on from where he knows them. What was lent to it
  below that is its own.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { principal owner token next create ttl_ms opened_ms } state
  OUT   SAVED | FORBIDDEN | SESSION_TAKEN | INVALID_SESSION                                                         ]]
-- include: put_entry
local answers = {}

for i = 3, #ARGV, 2 do
  local principal, owner, token, next_index, create, ttl_ms, opened = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local holder, lent = unpack(redis.call("HMGET", KEY.session, "owner", "lent"))
  local entry, answer = packed and cmsgpack.unpack(packed) or NEW.entry, "SAVED"
  if packed and entry[ENTRY.principal] ~= principal then
    answer = "FORBIDDEN"
  elseif holder and holder ~= owner then
    answer = "SESSION_TAKEN"
  elseif not holder and not create then
    answer = "INVALID_SESSION"
  else
    entry[ENTRY.principal], entry[ENTRY.next] = principal, math.max(entry[ENTRY.next], next_index)
    put_entry(entry, ttl_ms)
    redis.call("HSET", KEY.session, "owner", owner, "token", token, "state", ARGV[i + 1], "opened", opened)
    if lent then
      -- include: keep_lent
      keep_lent(lent, next_index)
    end
    redis.call("PEXPIRE", KEY.session, ttl_ms)
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
