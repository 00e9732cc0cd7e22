-- A job has waited long enough for its first node: it was never accepted, so it is refused and gone. It is told what it
-- would be told if it came now, and how long it waited.
-- include: ticket_of, leave_queue, groups_for, named_in_vain, refusal_of, post, tally, tally_refusal
local function refuse_late(job_id, job, now)
  local ticket = ticket_of(job_id)
  leave_queue(job_id, job, ticket)
  redis.call("HDEL", KEY.jobs, job_id, job_id .. ":ticket", job_id .. ":payload")
  redis.call("ZREM", KEY.due, "j:" .. job_id)
  local refusal = named_in_vain(ticket) or refusal_of(ticket, groups_for(ticket, 0))
  post("refused", job_id, 0, "", "", (now - job[JOB.created_at_ms]) .. " " .. table.concat(refusal, " "), now)
  tally_refusal(refusal)
  tally("refused.waited", 1)
end
