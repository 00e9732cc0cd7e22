-- Why a job gets no node now. One that could ever have one is never told that it could not.
-- include: fitting_groups
local function refusal_of(ticket, groups)
  local wishes, fallback = ticket[TICKET.wishes][1], ticket[TICKET.fallback]
  local could_ever = #groups > 0 or wishes and wishes[WISHES.named] ~= ""
  for _, pair in ipairs({ ticket[TICKET.pair], fallback ~= "" and fallback or nil }) do
    could_ever = could_ever or #fitting_groups(pair, ticket, LACK.marked) > 0
  end
  if not could_ever then
    -- include: incapable
    return incapable(ticket)
  end
  -- include: breakdown
  return { "ALL_CANDIDATES_FULL_OR_FAILED", unpack(breakdown(ticket)) }
end
