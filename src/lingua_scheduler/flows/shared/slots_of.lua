-- How many slots a node has: as many as it says itself, and no more than the operator lets it have. A limit only ever
-- lowers: nobody but the node knows how much it can do.                                                           pure
local function slots_of(node)
  local own_max, limit = node[NODE.own_max], node[NODE.limit]
  return limit > 0 and math.min(own_max, limit) or own_max
end
