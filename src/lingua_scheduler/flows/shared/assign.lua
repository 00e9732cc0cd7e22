-- An attempt that nobody waits for with open ears: whoever carries it to its node hears of it by the outbox. What stood
-- against the wishes of a job that waited, when it began to, comes first among the reasons.
-- include: reserve, post, tally
local function assign(job_id, job, node_id, node, choice, reasons, ticket, entry, now)
  tally(job[JOB.attempt] == 0 and "accepted" or "attempt.again", 1)
  if job[JOB.state] == "WAITING" or job[JOB.state] == "RETRYING" then
    -- include: past_of, take_back
    take_back(job_id, job, now)
    local kept = past_of(job)[PAST.reasons]
    for _, reason in ipairs(reasons) do
      kept[#kept + 1] = reason
    end
    reasons = kept
  end
  reserve(job_id, job, node_id, node, choice, reasons, ticket[TICKET.ack_ms], entry, now)
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  post("reserved", job_id, job[JOB.attempt], node_id, job[JOB.epoch], "", now)
end
