-- A group is new: those who wait and whom it could serve stand in line for it too.
-- include: ticket_of, wants_of, line_of, fitting_groups
local function invite(group, served)
  if redis.call("ZCARD", KEY.queue) == 0 then
    return
  end
  local known = {}

  local function could_serve(pair, ticket)
    local wants = pair .. wants_of(ticket)
    if known[wants] == nil then
      known[wants] = false
      for _, fitting in ipairs(fitting_groups(pair, ticket, 0)) do
        known[wants] = known[wants] or fitting == group
      end
    end
    return known[wants]
  end

  local function invite_from(list)
    for _, place in ipairs(redis.call("ZRANGEBYLEX", KEY.queue, "[" .. list .. ":", "(" .. list .. ";")) do
      local pair, at, job_id = string.match(place, "^.([^:]+:[^:]+).-(:%d+:([^:]+))$")
      local ticket = ticket_of(job_id)
      local line = line_of(cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id)), ticket)
      if line and could_serve(pair, ticket) then
        redis.call("ZADD", KEY.queue, 0, line .. group .. at)
      end
    end
  end
  for _, pair in ipairs(served) do
    local from = string.match(pair, "^(.+):%*$") or pair
    invite_from("w" .. from)
    invite_from("f" .. from)
  end
end
