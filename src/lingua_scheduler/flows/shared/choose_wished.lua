-- Choose as a job wishes: the node that has the rest of its turn, the node that it names, else by its policy, among all
-- that it does not exclude. A node that had the job, or has seen its utterance, is wished for in vain while another can
-- have it, unless the job insists; and one under suspicion that had it altogether. Gives the node, how many there were
-- to choose from, and what was special; the wishes that could not be met are added to the reasons.
-- include: pick, could_take, node_at
local function choose_wished(groups, job, ticket, wishes, had, reasons)
  local policy, banned, avoid, is_avoided, had_it = ticket[TICKET.policy], wishes[WISHES.excluded], {}, {}, {}
  local named, strict = wishes[WISHES.named], wishes[WISHES.strict] == 1
  for _, list in ipairs({ had, wishes[WISHES.seen] }) do
    for _, node_id in ipairs(list) do
      avoid[#avoid + 1] = node_id
      is_avoided[node_id], had_it[node_id] = not strict, list == had or had_it[node_id]
    end
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
      if node and not is_avoided[wished] then
        return with(wished)
      end
      local comes_back = had_it[wished] and node and node[NODE.standing] == STANDING.suspect
      spare = node and not comes_back and wished or spare
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

  -- A policy's wish comes after what must be avoided: first both, then only the latter.
  local best, skipped, in_vain = nil, { unpack(banned) }, nil
  for _, node_id in ipairs(avoid) do
    skipped[#skipped + 1] = node_id
  end
  if policy == POLICY.spread and wishes[WISHES.last] ~= "" then
    best = groups
    skipped[#skipped + 1] = wishes[WISHES.last]
  elseif policy == POLICY.sticky_pool and wishes[WISHES.pool] ~= "" then
    -- include: labelled
    best, in_vain = labelled(groups, { { "group", wishes[WISHES.pool] } }), "pool full"
  end
  if best then
    if #best > 0 then
      local node_id, node, candidates, special = pick(best, job, policy, skipped, {})
      if node then
        return node_id, node, candidates, special
      end
    end
    reasons[#reasons + 1] = in_vain
  end
  local node_id, node, candidates, special = pick(groups, job, policy, banned, avoid)
  if not node and spare then
    return with(spare)
  end
  return node_id, node, candidates, special
end
