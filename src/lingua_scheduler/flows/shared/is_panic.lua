-- Whether more than half of the living nodes of some groups are under suspicion.
-- include: room_in
local function is_panic(groups)
  local suspect, trusted = 0, 0
  local _, free, doubted = room_in(groups)
  for i, group in ipairs(groups) do
    local first = STANDING.count * group
    local full = first + STANDING.suspect_full
    local suspect_full = redis.call("ZCOUNT", KEY.standing, full, full)
    local others = redis.call("ZCOUNT", KEY.standing, first + STANDING.full, first + STANDING.resting)
    suspect = suspect + doubted[i] + suspect_full
    trusted = trusted + free[i] + others - suspect_full
  end
  return suspect > trusted
end
