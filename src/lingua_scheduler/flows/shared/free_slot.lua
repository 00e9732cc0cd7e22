-- Take a lease out of the ledger. Only what was really there is counted down.
-- include: by_load
local function free_slot(node, lease, now)
  if redis.call("ZREM", KEY.leases, lease) == 0 then
    return
  end
  node[NODE.used] = node[NODE.used] - 1
  if node[NODE.standing] <= STANDING.suspect_full then
    node[NODE.standing] = by_load(node, now)
  end
end
