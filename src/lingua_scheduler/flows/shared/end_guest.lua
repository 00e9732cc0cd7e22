-- A guest's attempt is over: what becomes of its slot, its cause says. A note stays as long as somebody may still ask
-- for it.
-- include: give_up
local function end_guest(name, guest, cause, now, rules)
  give_up(guest[GUEST.node], guest[GUEST.node] .. ":" .. name, cause, now, rules)
  guest[GUEST.over] = cause.name
  redis.call("HSET", KEY.guests, name, cmsgpack.pack(guest))
  redis.call("ZADD", KEY.due, DUE.forget + guest[GUEST.deadline_at_ms], "g:" .. name)
end
