-- What a message about an attempt is worth. CURRENT: it may move the job. FINISHED: it repeats what the finishing
-- attempt already said. STALE_ATTEMPT: the node held this attempt once; its entry in the past comes along.
-- NODE_MISMATCH: it never did.                                                                                  pure
local function attempt_of(job, attempt, node_id, epoch)
  local state = job[JOB.state]
  if attempt == job[JOB.attempt] and (job[JOB.ended_at_ms] == 0 and state ~= "RETRYING" or state == "FINISHED") then
    if node_id ~= job[JOB.node] then
      return "NODE_MISMATCH"
    end
    if epoch ~= "" and epoch ~= job[JOB.epoch] then
      return "STALE_ATTEMPT"
    end
    return state == "FINISHED" and "FINISHED" or "CURRENT"
  end
  for _, entry in ipairs(#job[JOB.past] > 0 and job[JOB.past][PAST.attempts] or {}) do
    if entry[PAST_ATTEMPT.attempt] == attempt and entry[PAST_ATTEMPT.node] == node_id then
      return "STALE_ATTEMPT", entry
    end
  end
  return "NODE_MISMATCH"
end
