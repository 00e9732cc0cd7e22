-- The groups for a job: those of its pair, or of the fallback while no live node serves the pair itself.
-- include: groups_of
local function groups_for(pair, fallback)
  local groups = groups_of(pair)
  if fallback == "" then
    return groups
  end
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    local all = redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1)
    local stale = first + STANDING.stale
    if all > redis.call("ZCOUNT", KEY.standing, stale, stale) then
      return groups
    end
  end
  local others = groups_of(fallback)
  return #others > 0 and others or groups
end
