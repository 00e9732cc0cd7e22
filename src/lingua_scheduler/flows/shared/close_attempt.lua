-- The current attempt is over without a result: note it, and free its slot or leave it in limbo until the node has
-- confirmed. `next_state` is what the message that ended it is told, however often it is repeated. Gives the note.
-- include: node_at, put_node, free_slot, enter_limbo, post, past_of, tally
local function close_attempt(job_id, job, cause, next_state, now, rules)
  local node_id, attempt = job[JOB.node], job[JOB.attempt]
  local node, lease = node_at(node_id), node_id .. ":" .. job_id .. ":" .. attempt
  local is_suspect = false
  if cause.blames then
    -- include: blame
    is_suspect = blame(node, now, rules)
  end
  if cause.limbo then
    enter_limbo(node, lease, now, rules)
    post("fenced", job_id, attempt, node_id, job[JOB.epoch], cause.name, now)
  else
    free_slot(node, lease, now)
  end
  if is_suspect then
    -- include: restand, look_again
    restand(node, now, rules)
    look_again(node_id, node, now, rules)
  end
  put_node(node_id, node)
  tally((next_state == "RETRYING" and "retry." or "attempt.") .. cause.name, 1)
  local entry, attempts = NEW.past_attempt, past_of(job)[PAST.attempts]
  entry[PAST_ATTEMPT.attempt] = attempt
  entry[PAST_ATTEMPT.node] = node_id
  entry[PAST_ATTEMPT.cause] = cause.name
  entry[PAST_ATTEMPT.ended_at_ms] = now
  entry[PAST_ATTEMPT.next_state] = next_state
  entry[PAST_ATTEMPT.next_attempt] = next_state == "RETRYING" and attempt + 1 or attempt
  entry[PAST_ATTEMPT.reserved_at_ms] = job[JOB.reserved_at_ms]
  entry[PAST_ATTEMPT.chosen] = job[JOB.chosen]
  entry[PAST_ATTEMPT.reasons] = past_of(job)[PAST.reasons]
  attempts[#attempts + 1] = entry
  return entry
end
