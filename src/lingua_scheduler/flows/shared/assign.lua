-- The next attempt of a job that had one before: whoever carries it to its node hears of it by the outbox.
-- include: reserve, post
local function assign(job_id, job, node_id, node, ticket, entry, now)
  reserve(job_id, job, node_id, node, ticket[TICKET.ack_ms], entry, now)
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  post("reserved", job_id, job[JOB.attempt], node_id, job[JOB.epoch], "", now)
end
