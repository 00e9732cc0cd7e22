-- Why a job gets no node now. One that could ever have one is never told that it could not. Many are refused for the
-- same reason: it is found out once, until the index changes.
-- include: node_at, fitting_groups
local function refusal_of(ticket, groups)
  local wishes, fallback = ticket[TICKET.wishes][1], ticket[TICKET.fallback]
  local need = not wishes and ticket[TICKET.pair] .. ticket[TICKET.needs]
  if need and told[need] then
    return told[need]
  end
  local could_ever = #groups > 0 or wishes and wishes[WISHES.named] ~= ""
  for _, pair in ipairs({ ticket[TICKET.pair], fallback ~= "" and fallback or nil }) do
    could_ever = could_ever or #fitting_groups(pair, ticket, LACK.marked) > 0
  end
  local refusal
  if could_ever then
    -- include: breakdown
    refusal = { "ALL_CANDIDATES_FULL_OR_FAILED", unpack(breakdown(ticket)) }
  else
    -- include: incapable
    refusal = incapable(ticket)
  end
  if need then
    told[need] = refusal
  end
  return refusal
end
