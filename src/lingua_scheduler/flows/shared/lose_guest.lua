-- A guest lost its node here, and its home hears of it. Whether the node had accepted, and so which of the two causes
-- it is, only the home knows.
-- include: end_guest, post
local function lose_guest(name, early, late, now, rules)
  local guest = cmsgpack.unpack(redis.call("HGET", KEY.guests, name))
  local job_id, attempt = string.match(name, "^([^:]+):(%d+)$")
  end_guest(name, guest, late, now, rules)
  local causes = early.name .. " " .. late.name
  post("guest_lost", job_id, tonumber(attempt), guest[GUEST.node], guest[GUEST.epoch], causes, now)
end
