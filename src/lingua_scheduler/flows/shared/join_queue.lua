-- A job without a node waits for the flow that frees one, until `until_ms` at most.
-- include: queue_places
local function join_queue(job_id, job, ticket, state, until_ms)
  job[JOB.state] = state
  redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
  redis.call("ZADD", KEY.due, until_ms, "j:" .. job_id)
  local members = {}
  for _, place in ipairs(queue_places(job_id, job, ticket)) do
    members[#members + 1] = 0
    members[#members + 1] = place
  end
  redis.call("ZADD", KEY.queue, unpack(members))
end
