-- Choose as a job wishes: the node that has the rest of its turn, the node that it names, else by its policy, among all
-- that it does not exclude and that are not owed to others. A node that had the job, or has seen its utterance, is
-- wished for in vain while another can have it, unless the job insists; and one that is too doubtful altogether. Gives
-- the node, how many there were to choose from, and what was special; the wishes that could not be met are added to the
-- reasons.
-- include: pick, could_take, node_at, is_doubtful
local function choose_wished(groups, job, ticket, had, owed, now, reasons)
  local policy, wishes = ticket[TICKET.policy], ticket[TICKET.wishes][1]
  local named, strict = wishes[WISHES.named], wishes[WISHES.strict] == 1
  local banned, avoid, is_owed, is_avoided, had_it = { unpack(wishes[WISHES.excluded]) }, { unpack(had) }, {}, {}, {}
  for _, node_id in ipairs(owed) do
    banned[#banned + 1], is_owed[node_id] = node_id, true
  end
  for _, node_id in ipairs(had) do
    is_avoided[node_id], had_it[node_id] = not strict, not strict
  end
  for _, node_id in ipairs(wishes[WISHES.seen]) do
    avoid[#avoid + 1], is_avoided[node_id] = node_id, not strict
  end

  local function with(node_id)
    local node = node_at(node_id)
    return node_id, node, 1, node[NODE.standing] == STANDING.suspect and "suspect" or nil
  end

  local spare
  for _, wish in ipairs({ { "bound", wishes[WISHES.bound] }, { "preferred", named } }) do
    local what, wished = wish[1], wish[2]
    if wished ~= "" and (wished == named or not strict) then
      local node, why = could_take(wished, ticket, wished == named and LACK.private or 0)
      if node and is_owed[wished] then
        node, why = nil, had_it[wished] and "seen" or STANDING.names[STANDING.full + 1]
      end
      if node and not is_avoided[wished] then
        return with(wished)
      end
      spare = node and not (had_it[wished] and is_doubtful(node, now)) and wished or spare
      reasons[#reasons + 1] = what .. " " .. (node and "seen" or why)
    end
  end
  if strict then
    return nil
  end
  if #groups == 0 then
    if spare then
      return with(spare)
    end
    return nil
  end

  -- A policy's wish is for a node that is trusted, and comes after what must be avoided: first both, then only the
  -- latter.
  local best, skipped, in_vain = nil, { unpack(banned) }, nil
  for _, node_id in ipairs(avoid) do
    skipped[#skipped + 1] = node_id
  end
  if policy == POLICY.spread and wishes[WISHES.last] ~= "" then
    best, in_vain = groups, "last node"
    skipped[#skipped + 1] = wishes[WISHES.last]
  elseif policy == POLICY.sticky_pool and wishes[WISHES.pool] ~= "" then
    -- include: labelled
    best, in_vain = labelled(groups, { { "group", wishes[WISHES.pool] } }), "pool full"
  end
  if best then
    if #best > 0 then
      local node_id, node, candidates, special = pick(best, job, policy, skipped, {}, now, groups)
      if node then
        return node_id, node, candidates, special
      end
    end
    reasons[#reasons + 1] = in_vain
  end
  local node_id, node, candidates, special = pick(groups, job, policy, banned, avoid, now)
  if not node and spare then
    return with(spare)
  end
  return node_id, node, candidates, special
end
