-- A group is new: those who wait and whom it could serve stand in line for it too.
-- include: ticket_of, line_of, fitting_groups
local function invite(group, served)
  if redis.call("ZCARD", KEY.queue) == 0 then
    return
  end
  local function invite_from(list)
    for _, place in ipairs(redis.call("ZRANGEBYLEX", KEY.queue, "[" .. list .. ":", "(" .. list .. ";")) do
      local pair, at, job_id = string.match(place, "^.([^:]+:[^:]+)(:%d+:([^:]+))$")
      local ticket = ticket_of(job_id)
      local line = line_of(ticket)
      for _, fitting in ipairs(line and fitting_groups(pair, ticket, 0) or {}) do
        if fitting == group then
          redis.call("ZADD", KEY.queue, 0, line .. group .. at)
        end
      end
    end
  end
  for _, pair in ipairs(served) do
    local from = string.match(pair, "^(.+):%*$") or pair
    invite_from("w" .. from)
    invite_from("f" .. from)
  end
end
