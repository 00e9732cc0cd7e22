-- A job that names a node which could never take it is refused, whoever else could; one that insists on a node, while
-- that one cannot take it.
-- include: could_take
local function named_in_vain(ticket)
  local wishes = ticket[TICKET.wishes][1]
  if not wishes or wishes[WISHES.named] == "" then
    return nil
  end
  local node, why, never = could_take(wishes[WISHES.named], ticket, LACK.private)
  if never then
    return { "PREFERRED_NODE_NOT_CAPABLE" }
  elseif not node and wishes[WISHES.strict] == 1 then
    return { "PREFERRED_NODE_UNAVAILABLE", why }
  end
end
