-- A job that waits for its next attempt asks no other cell any more, or has hoped long enough for one: it looks again
-- at home. Unless it goes on hoping, a node that had it is as good as any then.
-- include: ticket_of, leave_queue, place_again
local function look_home(job_id, job, hopes_until, now)
  local ticket = ticket_of(job_id)
  leave_queue(job_id, job, ticket)
  place_again(job_id, job, ticket, nil, hopes_until, now)
end
