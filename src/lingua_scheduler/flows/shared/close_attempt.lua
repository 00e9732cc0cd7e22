-- The current attempt is over without a result: note it, and free its slot or leave it in limbo until the node has
-- confirmed. `next_state` is what the message that ended it is told, however often it is repeated.
-- include: node_at, put_node, free_slot, enter_limbo, post
local function close_attempt(job_id, job, cause, next_state, now, rules)
  local node_id, attempt = job[JOB.node], job[JOB.attempt]
  local node, lease = node_at(node_id), node_id .. ":" .. job_id .. ":" .. attempt
  if cause.limbo then
    enter_limbo(node, lease, now, rules)
    post("fenced", job_id, attempt, node_id, job[JOB.epoch], cause.name, now)
  else
    free_slot(node, lease)
  end
  put_node(node_id, node)
  local attempts = job[JOB.past][PAST.attempts]
  attempts[#attempts + 1] = { attempt, node_id, cause.name, now, next_state }
end
