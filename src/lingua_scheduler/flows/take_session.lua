#!lua flags=allow-oom
--[[ take_session: another connection goes on with a session. From now on it owns it, and the last one's saves are
  refused. Numbers that the last one was lent and did not save come back: nobody will ever place what had them. That a
  session is somebody else's, or needs another token, is not told: for such a caller there is none.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { principal owner token ttl_ms }
  OUT   TAKEN last_owner state | INVALID_SESSION                                                                    ]]
-- include: binary, stretch_of, set_free, put_entry
local answers = {}

for i = 3, #ARGV do
  local principal, owner, token, ttl_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local last_owner, wanted, state, lent = unpack(redis.call("HMGET", KEY.session, "owner", "token", "state", "lent"))
  local entry, answer = packed and cmsgpack.unpack(packed), cmsgpack.pack({ "INVALID_SESSION" })
  if entry and entry[ENTRY.principal] == principal and wanted == token then
    if lent and last_owner ~= owner then
      for _, number in ipairs({ cmsgpack.unpack(lent) }) do
        if not stretch_of(entry[ENTRY.free], number) then
          set_free(entry, number, number)
        end
      end
      put_entry(entry, ttl_ms)
      redis.call("HDEL", KEY.session, "lent")
    end
    redis.call("HSET", KEY.session, "owner", owner)
    redis.call("PEXPIRE", KEY.session, ttl_ms, "GT")
    redis.call("PEXPIRE", KEY.entry, ttl_ms, "GT")
    -- An array of three, by hand for the sake of its last part.
    answer = "\147" .. cmsgpack.pack("TAKEN", last_owner) .. binary(state)
  end
  answers[#answers + 1] = answer
end
return answers
