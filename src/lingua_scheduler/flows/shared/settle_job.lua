-- Time has passed for a job under way: an ack, a result or the job itself is overdue. An ack leaves the due-list as it
-- is, for most jobs end before it matters; so it may only be found here that the time for the result counts by now.
-- Until the ack somebody looks at least once in `run_ms`: whenever it comes, the time for the result is not missed.
-- include: ticket_of, node_at, move_on, end_early
local function settle_job(job_id, now, rules)
  local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
  local deadline, run_ms = job[JOB.deadline_at_ms], job[JOB.run_ms]
  if job[JOB.state] == "WAITING" then
    -- include: refuse_late
    refuse_late(job_id, job, now)
    return
  end
  if now >= deadline then
    end_early(job_id, job, "EXPIRED", CAUSE.expired, "deadline", now, rules)
    return
  end
  if job[JOB.state] == "RETRYING" then
    -- include: take_back, look_home
    -- Whoever asked another cell for a node has not come back with one in time, or nobody has asked.
    take_back(job_id, job, now)
    look_home(job_id, job, now, now)
    return
  end
  local cause, over_at, look_at = CAUSE.run_timeout, job[JOB.accepted_at_ms] + run_ms, deadline
  if SOURCES.ACCEPTED[job[JOB.state]] then
    -- Who was sent nothing, as far as we know, owes no answer.
    cause, look_at = job[JOB.state] == "RESERVED" and CAUSE.unsent or CAUSE.ack_timeout, now + run_ms
    over_at = job[JOB.reserved_at_ms] + ticket_of(job_id)[TICKET.ack_ms]
  end
  if now >= over_at then
    -- In a grace the job stays with its node; when that is over, the node is lost, and not the job late. Of one that
    -- is silent that is not known. And an instance that had lost the engine first tells what it knows.
    local node = job[JOB.cell] == "" and node_at(job[JOB.node])
    local told_at = tonumber(redis.call("HGET", KEY.counts, "listening") or 0)
    local in_grace = node and node[NODE.away_until_ms] > 0 and node[NODE.lost_at_ms] == 0
      and node[NODE.unheard] == 0
    if in_grace or now < told_at then
      local stays_until = math.max(told_at, in_grace and node[NODE.away_until_ms] or now, now)
      redis.call("ZADD", KEY.due, math.min(stays_until, deadline), "j:" .. job_id)
      return
    end
    move_on(job_id, job, cause, cause.name, now, rules)
  else
    redis.call("ZADD", KEY.due, math.min(over_at, look_at, deadline), "j:" .. job_id)
  end
end
