-- How many nodes of the cell are silent, and how many are heard. Those who are lost are neither.
local function who_is_heard()
  local silent, heard, groups = 0, 0, redis.call("HKEYS", KEY.groups)
  groups[#groups + 1] = 0
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    silent = silent + redis.call("ZCOUNT", KEY.standing, first + STANDING.stale, first + STANDING.stale)
    heard = heard + redis.call("ZCOUNT", KEY.standing, first, "(" .. first + STANDING.stale)
  end
  return silent, heard
end
