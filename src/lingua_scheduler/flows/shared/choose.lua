-- Choose a node for a job among those of its groups that have room; one of `had` only when there is no other. Gives the
-- node, and why it was this one: the choice as a number, and the reasons.
-- include: pick
local function choose(groups, job, ticket, had)
  local policy, wishes, reasons = ticket[TICKET.policy], ticket[TICKET.wishes][1], {}
  local node_id, node, candidates, special
  if wishes then
    -- include: choose_wished
    node_id, node, candidates, special = choose_wished(groups, job, ticket, wishes, had, reasons)
  elseif #groups > 0 then
    node_id, node, candidates, special = pick(groups, job, policy, {}, had)
  end
  reasons[#reasons + 1] = special
  return node_id, node, node and CHOICE.group * node[NODE.group] + CHOICE.count * candidates + policy, reasons
end
