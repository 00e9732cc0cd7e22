-- A message about an attempt: what it is worth, its job, and the attempt's entry in the past. Whatever it says, it is a
-- sign of life of its node.
-- include: attempt_of, hear
local function message_of(job_id, attempt, node_id, epoch, now)
  hear(node_id, epoch, now)
  local packed = redis.call("HGET", KEY.jobs, job_id)
  if not packed then
    return "UNKNOWN_JOB"
  end
  local job = cmsgpack.unpack(packed)
  local verdict, entry = attempt_of(job, attempt, node_id, epoch)
  return verdict, job, entry
end
