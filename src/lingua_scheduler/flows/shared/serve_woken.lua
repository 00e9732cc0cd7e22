-- Nodes that came to have room take what waits for them, the earliest deadline first. So a node has room only when
-- nobody waits whom it could serve, and no newcomer overtakes. At most 64 jobs a visit; the due-list comes back for the
-- rest. Says how many were served.
-- include: node_at, first_waiting, ticket_of, leave_queue, had_by, remarks_on, assign
local function serve_woken(now)
  local ids, served = woken, 0
  woken = {}
  for _, node_id in ipairs(ids) do
    local node = node_at(node_id)
    while node and node[NODE.standing] <= STANDING.suspect do
      local job_id = first_waiting(node_id, node, now)
      if not job_id then
        break
      end
      if served == 64 then
        redis.call("ZADD", KEY.due, now, "r:" .. node_id)
        break
      end
      served = served + 1
      local job, ticket = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id)), ticket_of(job_id)
      leave_queue(job_id, job, ticket)
      local choice = CHOICE.group * node[NODE.group] + CHOICE.count + ticket[TICKET.policy]
      local reasons = { "waited", node[NODE.standing] == STANDING.suspect and "suspect" or nil }
      for _, remark in ipairs(remarks_on(node_id, ticket, had_by(job))) do
        reasons[#reasons + 1] = remark
      end
      assign(job_id, job, node_id, node, choice, reasons, ticket, nil, now)
    end
  end
  return served
end
