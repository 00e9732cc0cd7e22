-- Whether a node could take a job here and now: its record, or why not, and whether it never could.
-- include: node_at, is_fit
local function could_take(node_id, ticket, waived)
  local node, wishes = node_at(node_id), ticket[TICKET.wishes][1]
  if not node then
    return nil, "unknown", true
  end
  for _, excluded in ipairs(wishes[WISHES.excluded]) do
    if excluded == node_id then
      return nil, "excluded"
    end
  end
  if not is_fit(node[NODE.group], ticket, waived) then
    -- include: against
    local why = against(ticket)(node[NODE.group], waived > 0)
    return nil, why, why ~= "marked"
  end
  local standing = node[NODE.standing]
  return standing <= STANDING.suspect and node or nil, STANDING.names[standing + 1]
end
