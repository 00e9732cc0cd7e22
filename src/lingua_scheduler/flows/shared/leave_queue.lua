-- A job waits no longer.
-- include: queue_places
local function leave_queue(job_id, job, ticket)
  redis.call("ZREM", KEY.queue, unpack(queue_places(job_id, job, ticket)))
end
