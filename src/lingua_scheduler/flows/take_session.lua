#!lua flags=allow-oom
--[[ take_session: another connection goes on with a session. From now on it owns it, and the last one's saves are
  refused. Numbers that the last one was lent and did not save come back: nobody will ever place what had them. That a
  session is somebody else's, or needs another token, is not told: for such a caller there is none. Whoever comes by a
  connection that was opened before that of the client as it is now comes too late. (One that is to be opened yet was
  stamped by another clock, before a fail-over.) Which numbers others were given lately is told, known to the last one
  or not.
  KEYS  entry · session · heard
  ARGV  now_ms rules, then for each: { principal owner token ttl_ms opened_ms }
  OUT   TAKEN last_owner state heard given | INVALID_SESSION | SESSION_TAKEN        (given: { utterance job trace
        timeout_ms } of each)                                                                                       ]]
-- include: clock, binary, stretch_of, set_free, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, owner, token, ttl_ms, opened = unpack(cmsgpack.unpack(ARGV[i]))
  local packed, heard = redis.call("GET", KEY.entry), redis.call("GET", KEY.heard)
  local last_owner, wanted, state, lent, last_opened, given =
    unpack(redis.call("HMGET", KEY.session, "owner", "token", "state", "lent", "opened", "given"))
  last_opened = tonumber(last_opened or 0)
  local entry, answer = packed and cmsgpack.unpack(packed), cmsgpack.pack({ "INVALID_SESSION" })
  local is_known = entry and entry[ENTRY.principal] == principal and wanted == token
  if is_known and opened < last_opened and last_opened <= now then
    answer = cmsgpack.pack({ "SESSION_TAKEN" })
  elseif is_known then
    if lent and last_owner ~= owner then
      for _, number in ipairs({ cmsgpack.unpack(lent) }) do
        if not stretch_of(entry[ENTRY.free], number) then
          set_free(entry, number, number)
        end
      end
      put_entry(entry, ttl_ms)
      redis.call("HDEL", KEY.session, "lent")
    end
    redis.call("HSET", KEY.session, "owner", owner, "opened", opened)
    redis.call("PEXPIRE", KEY.session, ttl_ms, "GT")
    redis.call("PEXPIRE", KEY.entry, ttl_ms, "GT")
    redis.call("PEXPIRE", KEY.heard, ttl_ms, "GT")
    -- An array of five, by hand for the sake of its last parts; without what was given, an empty one in its place.
    answer = "\149" .. cmsgpack.pack("TAKEN", last_owner) .. binary(state) .. binary(heard or "") .. (given or "\144")
  end
  answers[#answers + 1] = answer
end
return answers
