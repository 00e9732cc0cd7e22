-- Who waits first for a node: in the line of its group, where all can go to it; in the other line of its group, where
-- some cannot; in the line of those that name it; and in the lists of those who may go to their fallback now. A job
-- does not go back to a node that is too doubtful, unless it insists or most are, nor while it hopes for one in another
-- cell.
-- include: ticket_of, wants_of, fitting_groups, is_fit, is_doubtful, had_by, hopes, fallen_lists
local function first_waiting(node_id, node, now)
  local first, group, known = nil, node[NODE.group], {}

  -- Many who wait want the same.
  local function once(question, ticket, find_out)
    local key = question .. wants_of(ticket)
    if known[key] == nil then
      known[key] = find_out()
    end
    return known[key]
  end

  local function comes_back(job_id, ticket)
    local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
    for _, had in ipairs(had_by(job)) do
      if had == node_id then
        if hopes(job_id, job) then
          return true
        end
        -- include: groups_for, is_panic
        return is_doubtful(node, now) and not once("panic?", ticket, function()
          return is_panic(groups_for(ticket, 0))
        end)
      end
    end
    return false
  end

  local function may_go(job_id, ticket)
    local wishes = ticket[TICKET.wishes][1]
    for _, excluded in ipairs(wishes and wishes[WISHES.excluded] or {}) do
      if excluded == node_id then
        return false
      end
    end
    return not comes_back(job_id, ticket)
  end

  local function names_it(job_id, ticket)
    local fits = once("named?", ticket, function()
      return is_fit(group, ticket, LACK.private)
    end)
    local insists = ticket[TICKET.wishes][1][WISHES.strict] == 1
    return fits and (insists or not comes_back(job_id, ticket))
  end

  local function falls_to(fallback)
    return function(job_id, ticket)
      local wishes = ticket[TICKET.wishes][1]
      local fits = once("fallback?", ticket, function()
        for _, fitting in ipairs(fitting_groups(fallback, ticket, 0)) do
          if fitting == group then
            return true
          end
        end
        return false
      end)
      return fits and not (wishes and wishes[WISHES.strict] == 1) and may_go(job_id, ticket)
    end
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
        local job_id = string.match(at, "[^:]+$")
        if not is_right or is_right(job_id, ticket_of(job_id)) then
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
  for _, fallen in ipairs(fallen_lists()) do
    look(fallen[1], falls_to(fallen[2]))
  end
  return first and string.match(first, "[^:]+$")
end
