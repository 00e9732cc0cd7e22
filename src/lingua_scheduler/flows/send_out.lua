#!lua flags=allow-oom
--[[ send_out: a job that waits for its next attempt asks another cell for a node, once at a time. It goes on waiting
  here, and whichever comes first counts. If nobody comes back with a node in `relay_lease_ms`, it asks no more.
  KEYS  jobs · due
  ARGV  now_ms rules, then for each: { job_id cell }
  OUT   SENT_OUT attempt deadline_at_ms seed { had } ticket   (attempt: a number that no other attempt of it has; had:
                                                               the nodes that had it)
        STAYS                                                 (it does not wait for another attempt, or asks already) ]]
-- include: clock, ticket_of, had_by
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, cell = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job, answer = packed and cmsgpack.unpack(packed), { "STAYS" }
  if job and job[JOB.state] == "RETRYING" and job[JOB.cell] == "" and now < job[JOB.deadline_at_ms] then
    local attempt, deadline = math.max(job[JOB.attempt], job[JOB.asked]) + 1, job[JOB.deadline_at_ms]
    job[JOB.asked], job[JOB.cell] = attempt, cell
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
    redis.call("ZADD", KEY.due, math.min(now + rules[RULE.relay_lease_ms], deadline), "j:" .. job_id)
    answer = { "SENT_OUT", attempt, deadline, job[JOB.seed], had_by(job), ticket_of(job_id) }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
