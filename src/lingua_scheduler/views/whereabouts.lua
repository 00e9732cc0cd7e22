#!lua flags=no-writes
--[[ whereabouts: where a job is, without what was asked for and what it says. For those who ask often.
  KEYS  jobs · due
  ARGV  now_ms rules, then for each: { job_id }
  OUT   WAITS waited_ms left_ms                          (for its first node; less than nothing is left: it is overdue)
        AT state node epoch attempt acks { had }         (had: the nodes of all its attempts, one by one)
        UNKNOWN_JOB                                                                                                ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id = cmsgpack.unpack(ARGV[i])[1]
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job = packed and cmsgpack.unpack(packed)
  local answer = { "UNKNOWN_JOB" }
  if job and job[JOB.state] == "WAITING" then
    answer = { "WAITS", now - job[JOB.created_at_ms], redis.call("ZSCORE", KEY.due, "j:" .. job_id) - now }
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
