-- No job has this number that was given for a session. It is written once: it must be given back to be given again.
local function forget_given(utterance)
  local packed = redis.call("HGET", KEY.session, "given")
  local given = packed and cmsgpack.unpack(packed) or {}
  for place, one in ipairs(given) do
    if one[1] == utterance then
      table.remove(given, place)
      redis.call("HSET", KEY.session, "given", cmsgpack.pack(given))
      break
    end
  end
end
