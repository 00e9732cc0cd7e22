#!lua flags=allow-oom
--[[ withdraw: a job without a node goes on to another cell, under the same name. From here on nobody makes it here any
  more, unless it has come back by then: whoever looks for it is told where it went. One that has its node stays.
  KEYS  groups · pairs · jobs · queue · due
  ARGV  now_ms rules, then for each: { job_id hop to keep_ms }    (hop: how often it went on before it came here, if it
                                                                   is not here: else its ticket says it; keep_ms:
                                                                   for how long somebody may look for it here)
  OUT   WITHDRAWN hop | STAYS | GONE_ON cell hop                  (hop: how often it has gone on by now; gone on:
                                                                   somebody else has sent it, and there)            ]]
-- include: clock, gone_on
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id, hop, to, keep_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local answer = { "STAYS" }
  if not job or job[JOB.state] == "WAITING" then
    answer = not job and gone_on(job_id, hop)
    if not answer then
      if job then
        -- include: ticket_of, leave_queue
        local ticket = ticket_of(job_id)
        hop = ticket[TICKET.hop]
        leave_queue(job_id, job, ticket)
        redis.call("HDEL", KEY.jobs, job_id, job_id .. ":ticket", job_id .. ":payload")
        redis.call("ZREM", KEY.due, "j:" .. job_id)
      end
      local way = NEW.way
      way[WAY.cell], way[WAY.hop] = to, hop + 1
      redis.call("HSET", KEY.jobs, job_id .. ":way", cmsgpack.pack(way))
      redis.call("ZADD", KEY.due, DUE.forget + now + keep_ms, "w:" .. job_id)
      answer = { "WITHDRAWN", hop + 1 }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
