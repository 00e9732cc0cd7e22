-- Whether a node is too doubtful to get a job back that it had: under suspicion, and not yet to be tried again.  pure
local function is_doubtful(node, now)
  return node[NODE.standing] == STANDING.suspect and now < node[NODE.probe_at_ms]
end
