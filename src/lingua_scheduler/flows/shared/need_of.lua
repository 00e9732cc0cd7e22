-- What a waiting job needs, as one word: its pair, and the pair it falls back to.                                pure
local function need_of(ticket)
  local fallback = ticket[TICKET.fallback]
  return fallback == "" and ticket[TICKET.pair] or ticket[TICKET.pair] .. ">" .. fallback
end
