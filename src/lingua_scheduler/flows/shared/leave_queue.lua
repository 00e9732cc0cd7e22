-- A job waits no longer. When it was the last with a fallback, nobody looks for its like any more.
-- include: queue_entry, first_waiting
local function leave_queue(job_id, job, ticket)
  local entry, need = queue_entry(job_id, job, ticket)
  redis.call("ZREM", KEY.queue, entry)
  if ticket[TICKET.fallback] ~= "" and not first_waiting(need) then
    redis.call("ZREM", KEY.due, "w:" .. need)
  end
end
