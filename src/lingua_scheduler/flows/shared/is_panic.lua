-- Whether more than half of the living nodes of some groups are under suspicion.
local function is_panic(groups)
  local alive, suspect = 0, 0
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    alive = alive + redis.call("ZCOUNT", KEY.standing, first, first + STANDING.resting)
    for _, standing in ipairs({ first + STANDING.suspect, first + STANDING.suspect_full }) do
      suspect = suspect + redis.call("ZCOUNT", KEY.standing, standing, standing)
    end
  end
  return 2 * suspect > alive
end
