-- A node is gone, or was: for a while it is remembered how often.                                               pure
-- include: flaps_at
local function flap(node, now, rules)
  local flaps = flaps_at(node, now, rules)
  node[NODE.flaps] = (flaps + 1) % GONE.base > 0 and flaps + 1 or flaps
  node[NODE.flapped_at_ms] = now
end
