-- A job waits: how many of its pair wait, itself among them, until it is its turn; and until when it waits at most.
local function waiting_place(job_id, job, ticket)
  local list = "w" .. ticket[TICKET.pair]
  local own = string.format("[%s:%015d:%s", list, job[JOB.deadline_at_ms], job_id)
  local place = redis.call("ZLEXCOUNT", KEY.queue, "[" .. list .. ":", own)
  return { "WAITING", place, job[JOB.created_at_ms] + ticket[TICKET.wait_ms] }
end
