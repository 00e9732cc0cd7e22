-- All that decides which groups fit a job, as one name: many who wait want the same.                             pure
local function wants_of(ticket)
  local wishes = ticket[TICKET.wishes][1]
  return cmsgpack.pack({
    ticket[TICKET.pair],
    ticket[TICKET.fallback],
    ticket[TICKET.needs],
    wishes and wishes[WISHES.back],
    wishes and wishes[WISHES.labels],
  })
end
