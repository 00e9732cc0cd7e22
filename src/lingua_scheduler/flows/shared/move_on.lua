-- The current attempt failed: the job goes to another node, or ends. Gives the note on the attempt that says which.
-- include: ticket_of, past_of, close_attempt, place_again, tally, post, end_job
local function move_on(job_id, job, cause, reason, now, rules)
  local ticket = ticket_of(job_id)
  local past = past_of(job)
  if cause.counts then
    past[cause.counts] = past[cause.counts] + 1
  end
  -- An overloaded fleet could hand a job round until its deadline: after so many refusals each costs a try.
  if cause.costs_try or (cause.name == "overloaded" and past[PAST.overloaded] > rules[RULE.max_overloaded]) then
    past[PAST.tries] = past[PAST.tries] + 1
  end

  local state, why = "RETRYING", reason
  if now >= job[JOB.deadline_at_ms] then
    state, why = "EXPIRED", "deadline"
  elseif past[PAST.lost] >= rules[RULE.max_lost] then
    state, why = "FAILED", "poison"
  elseif past[PAST.undelivered] > rules[RULE.max_undelivered] or past[PAST.tries] > ticket[TICKET.max_retry] then
    state = "FAILED"
  end

  local entry = close_attempt(job_id, job, cause, state, now, rules)
  if state == "RETRYING" then
    local wishes, hopes_ms = ticket[TICKET.wishes][1], rules[RULE.elsewhere_ms]
    if wishes and wishes[WISHES.strict] == 1 then
      hopes_ms = 0
    end
    if not place_again(job_id, job, ticket, entry, now + hopes_ms, now) then
      tally("wait.again", 1)
      if hopes_ms > 0 then
        post("stranded", job_id, job[JOB.attempt], "", "", ticket[TICKET.pair], now)
      end
    end
  else
    past[PAST.reason] = why
    end_job(job_id, job, state, why, rules[RULE.result_ttl_ms], now)
  end
  return entry
end
