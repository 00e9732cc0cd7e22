-- What stands against whole groups of nodes when it comes to a job. Gives a function that says it of one: the first of
-- no_pool, no_service or fallback, not_permitted and marked, or nothing. Whoever asks for many groups pays once.
-- include: pair_for, groups_of, fitting_groups
local function against(ticket)
  local pair, fallback, served = ticket[TICKET.pair], ticket[TICKET.fallback], pair_for(ticket)

  local function set_of(...)
    local set = {}
    for _, groups in ipairs({ ... }) do
      for _, group in ipairs(groups) do
        set[group] = true
      end
    end
    return set
  end

  local function fit(waived)
    return set_of(fitting_groups(pair, ticket, waived), fitting_groups(served, ticket, waived))
  end
  local pool, spare = set_of(groups_of(pair, 0)), set_of(fallback ~= "" and groups_of(fallback, 0) or {})
  local fitting, permitted, working = fit(LACK.private + LACK.marked), fit(LACK.marked), fit(LACK.private)

  return function(group, is_named)
    if not pool[group] and not spare[group] then
      return "no_pool"
    elseif not fitting[group] then
      return (pool[group] or served == fallback) and "no_service" or "fallback"
    elseif not permitted[group] and not is_named then
      return "not_permitted"
    end
    return not working[group] and "marked" or nil
  end
end
