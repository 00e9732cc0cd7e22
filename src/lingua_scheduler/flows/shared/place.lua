-- Give a job without a node its next attempt, on none of those that are `banned`, and on one that has not had it while
-- another has room. Says whether there was one; if not, what stood against its wishes is kept. A number that was passed
-- over is written down in the note on the last attempt, for those who ask again.
-- include: had_by, groups_for, find_node, assign, past_of
local function place(job_id, job, ticket, entry, banned, now)
  local node_id, node, choice, reasons = find_node(groups_for(ticket, 0), job, ticket, had_by(job), banned, now)
  if not node_id then
    past_of(job)[PAST.reasons] = reasons
    return false
  end
  if job[JOB.state] == "RETRYING" or job[JOB.state] == "WAITING" then
    table.insert(reasons, 1, "waited")
  end
  assign(job_id, job, node_id, node, choice, reasons, ticket, entry, now)
  return true
end
