-- Of the numbers that others were given for a session, the last: whoever takes it over hears which jobs have them.
local function keep_given(utterance, job, trace, timeout_ms)
  local packed = redis.call("HGET", KEY.session, "given")
  local given = packed and cmsgpack.unpack(packed) or {}
  given[#given + 1] = { utterance, job, trace, timeout_ms }
  if #given > GIVEN.most then
    table.remove(given, 1)
  end
  redis.call("HSET", KEY.session, "given", cmsgpack.pack(given))
end
