-- Take a slot of the node for the job's next attempt; writing the job is the caller's. A number under which the node
-- claims to work already (it lies, or our memory was rolled back) is passed over, and `entry`, the note on the attempt
-- before, says so.
-- include: put_node, by_load
local function reserve(job_id, job, node_id, node, choice, reasons, ack_ms, entry, now)
  local attempt = job[JOB.attempt]
  repeat
    attempt = attempt + 1
  until redis.call("ZADD", KEY.leases, 0, node_id .. ":" .. job_id .. ":" .. attempt) == 1
  if entry then
    entry[PAST_ATTEMPT.next_attempt] = attempt
  end
  node[NODE.used] = node[NODE.used] + 1
  node[NODE.standing] = by_load(node, now)
  put_node(node_id, node)
  job[JOB.state] = "RESERVED"
  job[JOB.attempt] = attempt
  job[JOB.node] = node_id
  job[JOB.epoch] = node[NODE.epoch]
  job[JOB.acks] = node[NODE.acks]
  job[JOB.reserved_at_ms] = now
  job[JOB.dispatched_at_ms] = 0
  job[JOB.accepted_at_ms] = 0
  job[JOB.started_at_ms] = 0
  job[JOB.chosen] = choice
  if #reasons > 0 or #job[JOB.past] > 0 then
    -- include: past_of
    past_of(job)[PAST.reasons] = reasons
  end
  redis.call("ZADD", KEY.due, math.min(now + ack_ms, now + job[JOB.run_ms], job[JOB.deadline_at_ms]), "j:" .. job_id)
end
