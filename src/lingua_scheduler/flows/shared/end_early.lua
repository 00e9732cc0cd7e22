-- A job ends from outside: cancelled, or its deadline passed. What it still holds on a node is fenced.
-- include: past_of, close_attempt, end_job, tally
local function end_early(job_id, job, state, cause, reason, now, rules)
  local past = past_of(job)
  past[PAST.reason] = reason
  if job[JOB.state] == "RETRYING" or job[JOB.state] == "WAITING" then
    -- include: ticket_of, leave_queue, take_back
    local never = job[JOB.attempt] == 0 and 1 or 0
    tally("accepted", never)
    tally("attempt.none", never)
    leave_queue(job_id, job, ticket_of(job_id))
    take_back(job_id, job, now)
  else
    close_attempt(job_id, job, cause, state, now, rules)
  end
  end_job(job_id, job, state, reason, rules[RULE.result_ttl_ms], now)
end
