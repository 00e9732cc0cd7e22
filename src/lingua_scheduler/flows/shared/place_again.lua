-- The job's next attempt, here and now if there is a node, after those who already wait; else it waits with them. Until
-- `hopes_until` (now = not at all) it hopes for a node in another cell, and goes back to none that had it; but not up
-- to its deadline. Says whether there was one.
-- include: place, serve, had_by, join_queue
local function place_again(job_id, job, ticket, entry, hopes_until, now)
  local hopeful, deadline = now < hopes_until and hopes_until < job[JOB.deadline_at_ms], job[JOB.deadline_at_ms]
  serve(now)
  local is_placed = place(job_id, job, ticket, entry, hopeful and had_by(job) or {}, now)
  if not is_placed then
    join_queue(job_id, job, ticket, "RETRYING", hopeful and hopes_until or deadline)
  end
  return is_placed
end
