-- How often a node was gone, seen from now: a digit for each part of the window, the newest last. What is older than
-- the window has left the number. Where the clock was set back, everything is as new as can be.                  pure
local function flaps_at(node, now, rules)
  local function part_of(moment)
    return math.floor(moment * GONE.parts / rules[RULE.flap_window_ms])
  end
  local passed = math.max(part_of(now) - part_of(node[NODE.flapped_at_ms]), 0)
  return node[NODE.flaps] * GONE.base ^ math.min(passed, GONE.parts) % GONE.base ^ GONE.parts
end
