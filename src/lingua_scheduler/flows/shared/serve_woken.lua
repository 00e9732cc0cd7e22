-- Nodes that came to have room take what waits for them, the earliest deadline first. So a node has room only when
-- nobody waits whom it could serve, and no newcomer overtakes. At most 64 jobs a visit; the due-list comes back for the
-- rest. When nobody waits it is one call. Says how many were served.
-- include: node_at, groups_for, first_waiting, ticket_of, leave_queue, assign
local function serve_woken(now)
  local ids, limit, heads = woken, 64, {}
  woken = {}

  -- Those of one need lie side by side: the first of each, and which groups could serve it.
  local entry = redis.call("ZRANGE", KEY.queue, 0, 0)[1]
  while entry do
    local need = string.match(entry, "^(.+):%d+:[^:]+$")
    local head = { need = need, entry = entry, serves = {} }
    local pair, fallback = string.match(need, "^([^>]+)>?(.*)$")
    for _, group in ipairs(groups_for(pair, fallback)) do
      head.serves[group] = true
    end
    heads[#heads + 1] = head
    entry = redis.call("ZRANGEBYLEX", KEY.queue, "(" .. need .. ";", "+", "LIMIT", 0, 1)[1]
  end

  local function first_for(group)
    local first
    for _, head in ipairs(heads) do
      local at = head.entry and string.sub(head.entry, #head.need + 2)
      if at and head.serves[group] and (not first or at < first.at) then
        first = head
        first.at = at
      end
    end
    return first
  end

  for _, node_id in ipairs(ids) do
    local node = node_at(node_id)
    while node and node[NODE.standing] == STANDING.available do
      local head = first_for(node[NODE.group])
      if not head then
        break
      end
      if limit == 0 then
        redis.call("ZADD", KEY.due, now, "r:" .. node_id)
        break
      end
      limit = limit - 1
      local job_id = string.match(head.entry, "[^:]+$")
      local job, ticket = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id)), ticket_of(job_id)
      leave_queue(job_id, job, ticket)
      assign(job_id, job, node_id, node, ticket, nil, now)
      head.entry = first_waiting(head.need)
    end
  end
  return 64 - limit
end
