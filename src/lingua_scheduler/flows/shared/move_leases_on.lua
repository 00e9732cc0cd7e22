-- The current attempts on a node end, at most `limit` of them: `early` for those it has not accepted, `late` for the
-- others. Its fenced attempts stay as they are. Says how many were moved.
-- include: leases_of, move_on
local function move_leases_on(node_id, early, late, limit, now, rules)
  local moved = 0
  for _, entry in ipairs(leases_of(node_id)) do
    local lease, job_id = entry[1], entry[2]
    if redis.call("HEXISTS", KEY.limbo, lease) == 0 then
      if moved == limit then
        return moved
      end
      moved = moved + 1
      local packed = redis.call("HGET", KEY.jobs, job_id)
      if packed then
        local job = cmsgpack.unpack(packed)
        local cause = SOURCES.ACCEPTED[job[JOB.state]] and early or late
        move_on(job_id, job, cause, cause.name, now, rules)
      else
        -- include: lose_guest
        lose_guest(job_id .. ":" .. entry[3], early, late, now, rules)
      end
    end
  end
  return moved
end
