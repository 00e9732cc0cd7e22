-- Who waits first for a node: in the line of its group, where all can go to it; in the other line of its group, where
-- some cannot; or in the line of those that name it.
-- include: ticket_of, is_fit
local function first_waiting(node_id, group)
  local function may_go(ticket)
    local wishes = ticket[TICKET.wishes][1]
    for _, excluded in ipairs(wishes and wishes[WISHES.excluded] or {}) do
      if excluded == node_id then
        return false
      end
    end
    return is_fit(group, ticket, 0)
  end

  local function names_it(ticket)
    return is_fit(group, ticket, LACK.private)
  end

  local first
  local function look(line, is_right)
    local after = "[" .. line .. ":"
    repeat
      local place = redis.call("ZRANGEBYLEX", KEY.queue, after, "(" .. line .. ";", "LIMIT", 0, 1)[1]
      local at = place and string.sub(place, #line + 2)
      if not at or first and at >= first then
        return
      end
      after = "(" .. place
    until not is_right or is_right(ticket_of(string.match(at, "[^:]+$")))
    first = string.sub(after, #line + 3)
  end
  look("g" .. group)
  look("x" .. group, may_go)
  look("n" .. node_id, names_it)
  return first and string.match(first, "[^:]+$")
end
