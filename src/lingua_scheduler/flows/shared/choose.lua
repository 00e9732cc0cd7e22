-- Choose a node for a job among those of its groups that have room: one of `had` only when there is no other, and none
-- that is owed to others. Gives the node, and why it was this one: the choice as a number, the reasons, and which of
-- them was special.
-- include: pick
local function choose(groups, job, ticket, had, owed, now)
  local policy, wishes, reasons = ticket[TICKET.policy], ticket[TICKET.wishes][1], {}
  local node_id, node, candidates, special
  if wishes then
    -- include: choose_wished
    node_id, node, candidates, special = choose_wished(groups, job, ticket, had, owed, now, reasons)
  elseif #groups > 0 then
    node_id, node, candidates, special = pick(groups, job, policy, owed, had, now)
  end
  if not node then
    return nil, nil, nil, reasons
  end
  reasons[#reasons + 1] = special
  if wishes or #had > 0 or ticket[TICKET.fallback] ~= "" then
    -- include: remarks_on
    for _, remark in ipairs(remarks_on(node_id, ticket, had)) do
      reasons[#reasons + 1] = remark
    end
  end
  return node_id, node, CHOICE.group * node[NODE.group] + CHOICE.count * candidates + policy, reasons, special
end
