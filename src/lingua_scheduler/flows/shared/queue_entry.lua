-- A job's place in the queue: by need, in it by deadline. The members of one need lie side by side.              pure
-- include: need_of
local function queue_entry(job_id, job, ticket)
  local need = need_of(ticket)
  return string.format("%s:%015d:%s", need, job[JOB.deadline_at_ms], job_id), need
end
