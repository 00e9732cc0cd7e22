#!lua flags=no-writes
--[[ whereabouts: where a job is, without what was asked for and what it says. For those who ask often.
  KEYS  jobs · due
  ARGV  now_ms rules, then for each: { job_id hop }      (hop: how often it went on before it came here)
  OUT   WAITS waited_ms left_ms hop                      (for its first node; less than nothing is left: it is overdue;
                                                          hop: how often it had gone on when it was made)
        AT state node epoch attempt acks { had }         (had: the nodes of all its attempts, one by one)
        GONE_ON cell hop | UNKNOWN_JOB                   (gone on: it is looked for in that cell)                   ]]
-- include: clock, gone_on
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id, hop = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local answer = not job and gone_on(job_id, hop) or { "UNKNOWN_JOB" }
  if job and job[JOB.state] == "WAITING" then
    -- include: ticket_of
    local left_ms = redis.call("ZSCORE", KEY.due, "j:" .. job_id) - now
    answer = { "WAITS", now - job[JOB.created_at_ms], left_ms, ticket_of(job_id)[TICKET.hop] }
  elseif job then
    local had = {}
    for _, attempt in ipairs(#job[JOB.past] > 0 and job[JOB.past][PAST.attempts] or {}) do
      had[#had + 1] = attempt[PAST_ATTEMPT.node]
    end
    had[#had + 1] = job[JOB.node] ~= "" and job[JOB.node] or nil
    answer = { "AT", job[JOB.state], job[JOB.node], job[JOB.epoch], job[JOB.attempt], job[JOB.acks], had }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
