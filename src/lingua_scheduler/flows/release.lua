#!lua flags=allow-oom
--[[ release: the client has the result. Text in and out is erased now, the record after `released_ttl_ms`.
  KEYS  jobs · due
  ARGV  now_ms rules, then for each: { job_id hop }                 (hop: how often it went on before it came here)
  OUT   RELEASED state released_at_ms | GONE_ON cell hop | UNKNOWN_JOB | NOT_ENDED state                           ]]
-- include: clock, past_of, gone_on
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, hop = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local answer = not packed and gone_on(job_id, hop) or { "UNKNOWN_JOB" }
  if packed then
    local job = cmsgpack.unpack(packed)
    if job[JOB.ended_at_ms] == 0 then
      answer = { "NOT_ENDED", job[JOB.state] }
    else
      local past = past_of(job)
      if past[PAST.released_at_ms] == 0 then
        past[PAST.released_at_ms] = now
        redis.call("HDEL", KEY.jobs, job_id .. ":payload", job_id .. ":result")
        redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
        redis.call("ZADD", KEY.due, DUE.forget + now + rules[RULE.released_ttl_ms], "j:" .. job_id)
      end
      answer = { "RELEASED", job[JOB.state], past[PAST.released_at_ms] }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
