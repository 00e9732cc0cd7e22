-- The job's one end. Its text, with the result if there is one, stays for `result_ttl_ms`: a submitter can fetch it.
-- `lease_ms`: for so long whoever called has what is to be told of it.
-- include: post, tally
local function end_job(job_id, job, state, detail, result_ttl_ms, now, result, lease_ms)
  job[JOB.state] = state
  job[JOB.ended_at_ms] = now
  if result then
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job), job_id .. ":result", result)
  else
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  end
  redis.call("ZADD", KEY.due, DUE.forget + now + result_ttl_ms, "j:" .. job_id)
  post("ended", job_id, job[JOB.attempt], job[JOB.node], job[JOB.epoch], detail, now, lease_ms)
  tally(state, 1)
end
