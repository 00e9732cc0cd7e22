-- Append to the outbox what somebody outside must hear of, in the order of EVENT. If whoever called takes it himself,
-- as a relay would, it comes to others only when his lease is over.
local function post(kind, job_id, attempt, node_id, epoch, detail, now, lease_ms)
  local event = cmsgpack.pack({ kind, job_id, attempt, node_id, epoch, detail, now })
  redis.call("ZADD", KEY.outbox, now + (lease_ms or 0), event)
end
