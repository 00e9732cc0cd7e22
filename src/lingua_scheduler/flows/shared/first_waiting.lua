-- Who waits first for a need: its place in the queue, and the job.
local function first_waiting(need)
  local entry = redis.call("ZRANGEBYLEX", KEY.queue, "[" .. need .. ":", "(" .. need .. ";", "LIMIT", 0, 1)[1]
  return entry, entry and string.match(entry, "[^:]+$")
end
