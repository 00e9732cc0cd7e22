-- A node fell: jobs whose pair nobody serves any more may go to the fallback, in order. At most 64 of them a visit; the
-- due-list comes back for the rest. Says how many went. Those whose fallback has no room are passed over whole.
-- include: ticket_of, fallen_lists, groups_of, room_in, hopes, had_by, place, queue_places
local function serve_fallen(now)
  local waiting, served, hopeless = {}, 0, {}
  for _, fallen in ipairs(fallen_lists()) do
    local list, fallback = fallen[1], fallen[2]
    if room_in(groups_of(fallback, 0)) > 0 then
      for _, entry in ipairs(redis.call("ZRANGEBYLEX", KEY.queue, "[" .. list .. ":", "(" .. list .. ";")) do
        waiting[#waiting + 1] = string.sub(entry, #list + 2)
      end
    end
  end
  table.sort(waiting)
  for _, at in ipairs(waiting) do
    local job_id = string.match(at, "[^:]+$")
    local ticket = ticket_of(job_id)
    local need = ticket[TICKET.pair] .. ticket[TICKET.needs]
    if not hopeless[need] then
      if served == 64 then
        redis.call("ZADD", KEY.due, now, "f:")
        break
      end
      local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
      local places = queue_places(job_id, job, ticket)
      if place(job_id, job, ticket, nil, hopes(job_id, job) and had_by(job) or {}, now) then
        redis.call("ZREM", KEY.queue, unpack(places))
        served = served + 1
      elseif #ticket[TICKET.wishes] == 0 and job[JOB.attempt] == 0 then
        hopeless[need] = true
      end
    end
  end
  return served
end
