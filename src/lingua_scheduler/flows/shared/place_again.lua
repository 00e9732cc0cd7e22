-- The job's next attempt, here and now if there is a node, after those who already wait; else it waits with them.
-- include: serve, place, join_queue
local function place_again(job_id, job, ticket, entry, now)
  serve(now)
  if not place(job_id, job, ticket, entry, now) then
    join_queue(job_id, job, ticket, "RETRYING", job[JOB.deadline_at_ms])
  end
end
