-- Who waits first for a node: in the line of its group, where all can go to it; in the other line of its group, where
-- some cannot; or in the line of those that name it. A job does not go back to a node under suspicion, unless it
-- insists or most are.
-- include: ticket_of, wants_of, is_fit
local function first_waiting(node_id, node)
  local first, group, known = nil, node[NODE.group], {}

  local function fits(ticket, waived)
    local wants = waived .. wants_of(ticket)
    if known[wants] == nil then
      known[wants] = is_fit(group, ticket, waived)
    end
    return known[wants]
  end

  local function comes_back(job_id, ticket)
    if node[NODE.standing] == STANDING.suspect then
      -- include: had_by, groups_for, is_panic
      for _, had in ipairs(had_by(cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id)))) do
        if had == node_id then
          return not is_panic(groups_for(ticket, 0))
        end
      end
    end
    return false
  end

  local function may_go(job_id)
    local ticket = ticket_of(job_id)
    local wishes = ticket[TICKET.wishes][1]
    for _, excluded in ipairs(wishes and wishes[WISHES.excluded] or {}) do
      if excluded == node_id then
        return false
      end
    end
    -- Only a fallback comes and goes; otherwise who stands in this line fits.
    return (ticket[TICKET.fallback] == "" or fits(ticket, 0)) and not comes_back(job_id, ticket)
  end

  local function names_it(job_id)
    local ticket = ticket_of(job_id)
    local insists = ticket[TICKET.wishes][1][WISHES.strict] == 1
    return fits(ticket, LACK.private) and (insists or not comes_back(job_id, ticket))
  end

  local function look(line, is_right)
    local after, most = "[" .. line .. ":", 1
    repeat
      local places = redis.call("ZRANGEBYLEX", KEY.queue, after, "(" .. line .. ";", "LIMIT", 0, most)
      for _, place in ipairs(places) do
        local at = string.sub(place, #line + 2)
        if first and at >= first then
          return
        end
        if not is_right or is_right(string.match(at, "[^:]+$")) then
          first = at
          return
        end
        after = "(" .. place
      end
      local is_all = #places < most
      most = 64
    until is_all
  end
  look("g" .. group)
  look("x" .. group, may_go)
  look("n" .. node_id, names_it)
  return first and string.match(first, "[^:]+$")
end
