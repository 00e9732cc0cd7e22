-- Whether a job that waits for its next attempt hopes for a node in another cell, or asks one: as long as it does, it
-- does not go back to a node that had it. It is due before its deadline then.
local function hopes(job_id, job)
  local at = job[JOB.state] == "RETRYING" and redis.call("ZSCORE", KEY.due, "j:" .. job_id)
  return at and tonumber(at) < job[JOB.deadline_at_ms]
end
