-- How many nodes of some groups have room: all of them, and for each group those that are trusted and those under
-- suspicion.
local function room_in(groups)
  local all, trusted, doubted = 0, {}, {}
  for i, room in ipairs(#groups > 0 and redis.call("HMGET", KEY.room, unpack(groups)) or {}) do
    local number = tonumber(room) or 0
    trusted[i] = number % ROOM.suspect
    doubted[i] = (number - trusted[i]) / ROOM.suspect
    all = all + trusted[i] + doubted[i]
  end
  return all, trusted, doubted
end
