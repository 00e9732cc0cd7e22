#!lua
--[[ dispatch: choose a node, take one of its slots, create the job.                          CREATED -> RESERVED
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · intents · jobs · leases · limbo ·
        queue · due · outbox · counts
  ARGV  now_ms rules, then for each job: ticket body          (body "" = none)
  OUT   PLACED state node epoch attempt acks                  (a job that exists already: as it is now)
        NO_CAPABLE_NODE src tgt                               (whether any node takes the one, gives the other)
        ALL_CANDIDATES_FULL_OR_FAILED pool full stale not_ready draining resting
        OVERDUE                                               (nothing done: too much is overdue, reap first)      ]]
-- include: clock, tally, groups_for, choose, reserve, write_tally
local now, packed_rules, answers = clock(ARGV[1]), ARGV[2], {}

-- A node that rested enough or fell stale is found only through the due-list, so that comes first.
if redis.call("ZCOUNT", KEY.due, "-inf", now) > 0 then
  -- include: settle
  local _, more = settle(64, now, cmsgpack.unpack(packed_rules))
  if more then
    write_tally()
    for _ = 3, #ARGV, 2 do
      answers[#answers + 1] = cmsgpack.pack({ "OVERDUE" })
    end
    return answers
  end
end

-- Why a pair was refused holds for the whole run: what is placed meanwhile goes to nodes that were not in its pool.
local full = {}

for i = 3, #ARGV, 2 do
  local ticket = cmsgpack.unpack(ARGV[i])
  local job_id, pair = ticket[TICKET.job], ticket[TICKET.pair]
  local answer
  local known = redis.call("HGET", KEY.jobs, job_id)
  if known then
    local job = cmsgpack.unpack(known)
    answer = { "PLACED", job[JOB.state], job[JOB.node], job[JOB.epoch], job[JOB.attempt], job[JOB.acks] }
  else
    local groups = groups_for(pair, ticket[TICKET.fallback])
    local job = NEW.job
    job[JOB.created_at_ms], job[JOB.deadline_at_ms] = now, now + ticket[TICKET.timeout_ms]
    job[JOB.run_ms], job[JOB.seed] = ticket[TICKET.run_ms], ticket[TICKET.seed]
    local node_id, node
    if #groups > 0 then
      node_id, node = choose(groups, job, {})
    end
    if node_id then
      reserve(job_id, job, node_id, node, ticket[TICKET.ack_ms], nil, now)
      local record, body = cmsgpack.pack(job), ARGV[i + 1]
      if body ~= "" then
        redis.call("HSET", KEY.jobs, job_id, record, job_id .. ":ticket", ARGV[i], job_id .. ":payload", body)
      else
        redis.call("HSET", KEY.jobs, job_id, record, job_id .. ":ticket", ARGV[i])
      end
      tally("accepted", 1)
      answer = { "PLACED", "RESERVED", node_id, job[JOB.epoch], job[JOB.attempt], job[JOB.acks] }
    elseif #groups == 0 then
      -- include: ends_served
      tally("refused.incapable", 1)
      answer = { "NO_CAPABLE_NODE", ends_served(pair) }
    else
      -- include: breakdown
      tally("refused.full", 1)
      full[pair] = full[pair] or breakdown(groups)
      answer = full[pair]
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
