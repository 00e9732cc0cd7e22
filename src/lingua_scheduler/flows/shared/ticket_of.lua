-- What was asked for.
local function ticket_of(job_id)
  return cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id .. ":ticket"))
end
