-- Take a lease out of the ledger. Only what was really there is counted down.
local function free_slot(node, lease)
  if redis.call("ZREM", KEY.leases, lease) == 0 then
    return
  end
  node[NODE.used] = node[NODE.used] - 1
  if node[NODE.standing] == STANDING.full and node[NODE.used] < node[NODE.max] then
    node[NODE.standing] = STANDING.available
  end
end
