-- How often a node was gone within the window.                                                                   pure
-- include: flaps_at
local function times_gone(node, now, rules)
  local flaps, times = flaps_at(node, now, rules), 0
  while flaps > 0 do
    times = times + flaps % GONE.base
    flaps = math.floor(flaps / GONE.base)
  end
  return times
end
