-- The pair in whose pool a job looks for a node: its own, or its fallback while no live node serves its own and some
-- node could do it there.
-- include: fitting_groups
local function pair_for(ticket)
  local pair, fallback = ticket[TICKET.pair], ticket[TICKET.fallback]
  if fallback ~= "" then
    -- include: is_live
    if not is_live(pair) and #fitting_groups(fallback, ticket, LACK.private + LACK.marked) > 0 then
      return fallback
    end
  end
  return pair
end
