-- A node fell: jobs whose pair nobody serves any more may go to the fallback, in order. At most 64 of them a visit; the
-- due-list comes back for the rest.
-- include: ticket_of, is_live, place, queue_places
local function serve_fallen(now)
  local waiting, served, live, hopeless = {}, 0, {}, {}
  for i, entry in ipairs(redis.call("ZRANGEBYLEX", KEY.queue, "[f", "(g")) do
    waiting[i] = string.match(entry, "%d+:[^:]+$")
  end
  table.sort(waiting)
  for _, at in ipairs(waiting) do
    local job_id = string.match(at, "[^:]+$")
    local ticket = ticket_of(job_id)
    local pair, need = ticket[TICKET.pair], ticket[TICKET.pair] .. ticket[TICKET.needs]
    if live[pair] == nil then
      live[pair] = is_live(pair)
    end
    if not live[pair] and not hopeless[need] then
      if served == 64 then
        redis.call("ZADD", KEY.due, now, "f:")
        return
      end
      local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
      local places = queue_places(job_id, job, ticket)
      if place(job_id, job, ticket, nil, now) then
        redis.call("ZREM", KEY.queue, unpack(places))
        served = served + 1
      elseif #ticket[TICKET.wishes] == 0 then
        hopeless[need] = true
      end
    end
  end
end
