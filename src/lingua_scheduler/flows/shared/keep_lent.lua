-- Of the numbers that were lent to a session's connection those stay lent that its saved state does not know.
local function keep_lent(lent, next_index)
  local kept = {}
  for _, number in ipairs({ cmsgpack.unpack(lent) }) do
    if number >= next_index then
      kept[#kept + 1] = number
    end
  end
  if #kept > 0 then
    redis.call("HSET", KEY.session, "lent", cmsgpack.pack(unpack(kept)))
  else
    redis.call("HDEL", KEY.session, "lent")
  end
end
