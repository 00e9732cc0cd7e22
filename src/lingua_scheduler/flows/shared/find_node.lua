-- Choose a node for a job, as `choose` does, and none of `banned`; but one that has not yet served all who wait for it
-- is theirs. More than so many are not asked. If there is none, the next choice is drawn as if this one had not been.
-- include: choose
local function find_node(groups, job, ticket, had, banned, now)
  local owed, seed, is_owed = { unpack(banned) }, job[JOB.seed], nil
  local node_id, node, choice, reasons
  for _ = 1, 64 do
    node_id, node, choice, reasons = choose(groups, job, ticket, had, owed, now)
    is_owed = node_id and redis.call("ZSCORE", KEY.due, "r:" .. node_id)
    if not is_owed then
      break
    end
    owed[#owed + 1] = node_id
  end
  if not node_id or is_owed then
    job[JOB.seed] = seed
    return nil, nil, nil, reasons
  end
  return node_id, node, choice, reasons
end
