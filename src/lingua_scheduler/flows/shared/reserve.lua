-- Take a slot of the node for the job's next attempt; writing the job is the caller's. A number under which the node
-- claims to work already (it lies, or our memory was rolled back) is passed over, as are those for which other cells
-- were asked, and `entry`, the note on the attempt before, says so.
-- include: take_slot, occupy
local function reserve(job_id, job, node_id, node, choice, reasons, ack_ms, entry, now)
  local attempt = math.max(job[JOB.attempt], job[JOB.asked])
  repeat
    attempt = attempt + 1
  until take_slot(node_id, node, job_id .. ":" .. attempt, now)
  if entry then
    entry[PAST_ATTEMPT.next_attempt] = attempt
  end
  occupy(job_id, job, attempt, node_id, node[NODE.epoch], node[NODE.acks], choice, reasons, ack_ms, now)
end
