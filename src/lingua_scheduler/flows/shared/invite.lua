-- A group is new: those who wait and whom it could serve stand in line for it too.
-- include: ticket_of, wants_of, line_of, fitting_groups
local function invite(group, served)
  if redis.call("ZCARD", KEY.queue) == 0 then
    return
  end
  local known = {}

  local function could_serve(ticket)
    local wants = wants_of(ticket)
    if known[wants] == nil then
      known[wants] = false
      for _, fitting in ipairs(fitting_groups(ticket[TICKET.pair], ticket, 0)) do
        known[wants] = known[wants] or fitting == group
      end
    end
    return known[wants]
  end

  for _, pair in ipairs(served) do
    local list = "w" .. (string.match(pair, "^(.+):%*$") or pair)
    for _, place in ipairs(redis.call("ZRANGEBYLEX", KEY.queue, "[" .. list .. ":", "(" .. list .. ";")) do
      local at, job_id = string.match(place, "(:%d+:([^:]+))$")
      local ticket = ticket_of(job_id)
      local line = line_of(cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id)), ticket)
      if line and could_serve(ticket) then
        redis.call("ZADD", KEY.queue, 0, line .. group .. at)
      end
    end
  end
end
