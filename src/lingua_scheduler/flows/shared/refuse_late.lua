-- A job has waited long enough for its first node: it was never accepted, so it is refused and gone.
-- include: ticket_of, leave_queue, breakdown, post, tally
local function refuse_late(job_id, job, now)
  local ticket = ticket_of(job_id)
  leave_queue(job_id, job, ticket)
  redis.call("HDEL", KEY.jobs, job_id, job_id .. ":ticket", job_id .. ":payload")
  redis.call("ZREM", KEY.due, "j:" .. job_id)
  local numbers = table.concat(breakdown(ticket), " ")
  post("refused", job_id, 0, "", "", (now - job[JOB.created_at_ms]) .. " " .. numbers, now)
  tally("refused.waited", 1)
end
