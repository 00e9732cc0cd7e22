-- Where a job went that is not here, if it has gone on since it came here with this hop: the answer for who looks for
-- it.
local function gone_on(job_id, hop)
  local packed = redis.call("HGET", KEY.jobs, job_id .. ":way")
  local way = packed and cmsgpack.unpack(packed)
  if way and way[WAY.hop] > hop then
    return { "GONE_ON", way[WAY.cell], way[WAY.hop] }
  end
end
