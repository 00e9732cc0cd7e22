-- How a node stands that nothing else is held against: by its load, and by what became of its last jobs. One under
-- suspicion is probed: when its time has come and it has nothing else to do, it may have one job like any other.
local function by_load(node, now)
  local is_full, probe_at = node[NODE.used] >= node[NODE.max], node[NODE.probe_at_ms]
  if probe_at > 0 and (node[NODE.used] > 0 or now < probe_at) then
    return is_full and STANDING.suspect_full or STANDING.suspect
  end
  return is_full and STANDING.full or STANDING.available
end
