-- An attempt that nobody waits for with open ears: whoever carries it to its node hears of it by the outbox.
-- include: reserve, post, tally
local function assign(job_id, job, node_id, node, choice, reasons, ticket, entry, now)
  tally(job[JOB.attempt] == 0 and "accepted" or "attempt.again", 1)
  reserve(job_id, job, node_id, node, choice, reasons, ticket[TICKET.ack_ms], entry, now)
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  post("reserved", job_id, job[JOB.attempt], node_id, job[JOB.epoch], "", now)
end
