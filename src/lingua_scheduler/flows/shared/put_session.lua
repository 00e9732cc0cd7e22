-- Write down what a session needs to go on elsewhere, if this is its owner, and for how long; what is to be answered.
-- include: put_entry
local function put_session(state, principal, owner, token, next_index, create, ttl_ms, opened)
  local packed = redis.call("GET", KEY.entry)
  local holder, lent = unpack(redis.call("HMGET", KEY.session, "owner", "lent"))
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  if packed and entry[ENTRY.principal] ~= principal then
    return "FORBIDDEN"
  elseif holder and holder ~= owner then
    return "SESSION_TAKEN"
  elseif not holder and not create then
    return "INVALID_SESSION"
  end
  entry[ENTRY.principal], entry[ENTRY.next] = principal, math.max(entry[ENTRY.next], next_index)
  put_entry(entry, ttl_ms)
  redis.call("HSET", KEY.session, "owner", owner, "token", token, "state", state, "opened", opened)
  if lent then
    -- include: keep_lent
    keep_lent(lent, next_index)
  end
  redis.call("PEXPIRE", KEY.session, ttl_ms)
  return "SAVED"
end
