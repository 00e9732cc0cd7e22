-- The job's one end. Its text stays for `result_ttl_ms`, so that a submitter can fetch it.
-- include: post, tally
local function end_job(job_id, job, state, detail, result_ttl_ms, now)
  job[JOB.state] = state
  job[JOB.ended_at_ms] = now
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  redis.call("ZADD", KEY.due, DUE.forget + now + result_ttl_ms, "j:" .. job_id)
  post("ended", job_id, job[JOB.attempt], job[JOB.node], job[JOB.epoch], detail, now)
  tally(state)
end
