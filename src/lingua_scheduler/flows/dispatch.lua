#!lua
--[[ dispatch: choose a node, take one of its slots, create the job.                CREATED -> RESERVED | WAITING
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · jobs · guests · leases · limbo ·
        queue · due · outbox · counts
  ARGV  now_ms rules, then for each job: ticket body          (body "" = none)
  OUT   PLACED state node epoch attempt acks pool new deadline_at_ms
                                                              (a job that exists already, not new: as it is now, and
                                                               no deadline; pool: the node's label `group`, if that
                                                               is the policy)
        WAITING place until_ms                                (no room now; the outbox says how it goes on)
        NO_CAPABLE_NODE src tgt nodes lacks                   (whether any takes the one, gives the other; how many
                                                               serve the pair, and what all of them lack)
        ALL_CANDIDATES_FULL_OR_FAILED pool full stale not_ready draining resting marked excluded no_service
                                      not_permitted
        PREFERRED_NODE_NOT_CAPABLE | PREFERRED_NODE_UNAVAILABLE why
        GONE_ON cell hop                                      (it was sent on to another cell, and is looked for there)
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

for i = 3, #ARGV, 2 do
  local ticket = cmsgpack.unpack(ARGV[i])
  local job_id, body, wishes = ticket[TICKET.job], ARGV[i + 1], ticket[TICKET.wishes][1]
  local answer, waits, waits_for
  local known, way = unpack(redis.call("HMGET", KEY.jobs, job_id, job_id .. ":way"))
  if way then
    -- include: gone_on
    answer = not known and gone_on(job_id, ticket[TICKET.hop])
  end
  if known then
    local job = cmsgpack.unpack(known)
    answer = { "PLACED", job[JOB.state], job[JOB.node], job[JOB.epoch], job[JOB.attempt], job[JOB.acks], "", false }
    if job[JOB.state] == "WAITING" then
      -- include: ticket_of
      waits, waits_for = job, ticket_of(job_id)
    end
  elseif not answer then
    local job = NEW.job
    job[JOB.created_at_ms], job[JOB.deadline_at_ms] = now, now + ticket[TICKET.timeout_ms]
    job[JOB.run_ms], job[JOB.seed] = ticket[TICKET.run_ms], ticket[TICKET.seed]
    local groups = groups_for(ticket, 0)
    local node_id, node, choice, reasons, special, in_vain
    if wishes then
      -- include: named_in_vain
      in_vain, answer = named_in_vain, named_in_vain(ticket)
    end
    if not answer then
      node_id, node, choice, reasons, special = choose(groups, job, ticket, {}, {}, now)
      if special then
        -- A panic may have begun while others wait who had this suspect and were not given it: they come first.
        -- include: serve
        woken[#woken + 1] = node_id
        if serve(now) > 0 then
          node_id, node, choice, reasons = choose(groups, job, ticket, {}, {}, now)
        end
      end
    end
    if node_id then
      reserve(job_id, job, node_id, node, choice, reasons, ticket[TICKET.ack_ms], nil, now)
      local record = cmsgpack.pack(job)
      if body ~= "" then
        redis.call("HSET", KEY.jobs, job_id, record, job_id .. ":ticket", ARGV[i], job_id .. ":payload", body)
      else
        redis.call("HSET", KEY.jobs, job_id, record, job_id .. ":ticket", ARGV[i])
      end
      tally("accepted", 1)
      answer = { "PLACED", "RESERVED", node_id, job[JOB.epoch], job[JOB.attempt], job[JOB.acks], "", true }
      answer[9] = job[JOB.deadline_at_ms]
      if ticket[TICKET.policy] == POLICY.sticky_pool then
        -- include: pool_of
        answer[7] = pool_of(node[NODE.group])
      end
    else
      -- include: refusal_of
      answer = answer or in_vain and in_vain(ticket) or refusal_of(ticket, groups)
      local may_come = answer[1] ~= "NO_CAPABLE_NODE" and answer[1] ~= "PREFERRED_NODE_NOT_CAPABLE"
      -- include: may_wait, join_queue, past_of
      if may_come and ticket[TICKET.wait_ms] > 0 and may_wait(packed_rules) then
        past_of(job)[PAST.reasons] = reasons or { "preferred " .. answer[2] }
        redis.call("HSET", KEY.jobs, job_id .. ":ticket", ARGV[i])
        if body ~= "" then
          redis.call("HSET", KEY.jobs, job_id .. ":payload", body)
        end
        join_queue(job_id, job, ticket, "WAITING", now + ticket[TICKET.wait_ms])
        tally("wait.first", 1)
        waits, waits_for = job, ticket
      else
        -- include: tally_refusal
        tally_refusal(answer)
      end
    end
  end
  if waits then
    -- include: waiting_place
    answer = waiting_place(job_id, waits, waits_for)
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
