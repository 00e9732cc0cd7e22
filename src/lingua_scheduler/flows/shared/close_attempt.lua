-- The current attempt is over without a result: note it, and free its slot or leave it in limbo until the node has
-- confirmed. `next_state` is what the message that ended it is told, however often it is repeated. Gives the note.
-- include: give_up, post, past_of, tally
local function close_attempt(job_id, job, cause, next_state, now, rules)
  local node_id, attempt, cell = job[JOB.node], job[JOB.attempt], job[JOB.cell]
  if cell == "" then
    give_up(node_id, node_id .. ":" .. job_id .. ":" .. attempt, cause, now, rules)
  else
    -- include: let_go
    let_go(job_id, attempt, cell, node_id, cause.name, job[JOB.deadline_at_ms], now)
    job[JOB.cell] = ""
  end
  if cause.limbo then
    post("fenced", job_id, attempt, node_id, job[JOB.epoch], cause.name, now)
  end
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
  entry[PAST_ATTEMPT.cell] = cell
  entry[PAST_ATTEMPT.dispatched_at_ms] = job[JOB.dispatched_at_ms]
  entry[PAST_ATTEMPT.accepted_at_ms] = job[JOB.accepted_at_ms]
  entry[PAST_ATTEMPT.started_at_ms] = job[JOB.started_at_ms]
  attempts[#attempts + 1] = entry
  return entry
end
