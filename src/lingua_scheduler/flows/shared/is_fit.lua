-- Whether the nodes of a group are fit for a job, alive or dead: those of its own pair, and of the pair in whose pool
-- it looks.
-- include: pair_for, fitting_groups
local function is_fit(group, ticket, waived)
  for _, pair in ipairs({ ticket[TICKET.pair], pair_for(ticket) }) do
    for _, fitting in ipairs(fitting_groups(pair, ticket, waived)) do
      if fitting == group then
        return true
      end
    end
  end
  return false
end
