-- A job without a node asks no other cell for one any more. Writing the job is the caller's.
local function take_back(job_id, job, now)
  if job[JOB.cell] ~= "" then
    -- include: let_go
    let_go(job_id, job[JOB.asked], job[JOB.cell], "", "back", job[JOB.deadline_at_ms], now)
    job[JOB.cell] = ""
  end
end
