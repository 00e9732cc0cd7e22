-- Whether any node that is not taken for dead serves a pair.
-- include: groups_of
local function is_live(pair)
  for _, group in ipairs(groups_of(pair, 0)) do
    local first = STANDING.count * group
    if redis.call("ZCOUNT", KEY.standing, first, "(" .. first + STANDING.stale) > 0 then
      return true
    end
  end
  return false
end
