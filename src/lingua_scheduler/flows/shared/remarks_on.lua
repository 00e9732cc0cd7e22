-- What else is to be told of a choice: that the node is one for the fallback, or had the job or saw its utterance.
local function remarks_on(node_id, ticket, had)
  local wishes, remarks = ticket[TICKET.wishes][1], {}
  if ticket[TICKET.fallback] ~= "" then
    -- include: pair_for
    remarks[1] = pair_for(ticket) ~= ticket[TICKET.pair] and "fell back" or nil
  end
  for _, list in ipairs({ had, wishes and wishes[WISHES.seen] or {} }) do
    for _, other in ipairs(list) do
      if other == node_id then
        remarks[#remarks + 1] = "again"
        return remarks
      end
    end
  end
  return remarks
end
