#!lua flags=no-writes
--[[ job: everything known of a job.
  KEYS  jobs
  ARGV  now_ms rules, then for each: { job_id hop }                 (hop: how often it went on before it came here)
  OUT   JOB record ticket payload result | GONE_ON cell hop | UNKNOWN_JOB                                          ]]
-- include: gone_on
local answers = {}

for i = 3, #ARGV do
  local job_id, hop = unpack(cmsgpack.unpack(ARGV[i]))
  local job = redis.call("HGET", KEY.jobs, job_id)
  local answer = not job and gone_on(job_id, hop) or { "UNKNOWN_JOB" }
  if job then
    local ticket, payload, result =
      unpack(redis.call("HMGET", KEY.jobs, job_id .. ":ticket", job_id .. ":payload", job_id .. ":result"))
    answer = { "JOB", cmsgpack.unpack(job), cmsgpack.unpack(ticket), payload or "", result or "" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
