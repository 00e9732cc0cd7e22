-- Append to the outbox what somebody outside must hear of, in the order of EVENT.
local function post(kind, job_id, attempt, node_id, epoch, detail, now)
  redis.call("ZADD", KEY.outbox, now, cmsgpack.pack({ kind, job_id, attempt, node_id, epoch, detail, now }))
end
