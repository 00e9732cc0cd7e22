-- Whether a node is done with an attempt that it once had and still names: it said so itself, or confirmed the fence,
-- and this word was only slower on the way. What was taken from it without asking it may really be at.
-- include: attempt_of
local function has_let_go(job_id, attempt, node_id)
  local packed, cause = redis.call("HGET", KEY.jobs, job_id), nil
  if packed then
    local verdict, entry = attempt_of(cmsgpack.unpack(packed), attempt, node_id, "")
    if not entry then
      return verdict == "FINISHED"
    end
    cause = entry[PAST_ATTEMPT.cause]
  else
    packed = redis.call("HGET", KEY.guests, job_id .. ":" .. attempt)
    local guest = packed and cmsgpack.unpack(packed)
    if not guest or guest[GUEST.node] ~= node_id then
      return false
    end
    cause = guest[GUEST.over]
  end
  local unasked = { undelivered = true, dropped = true, died_early = true, died = true, left_early = true, left = true }
  return not unasked[cause] and cause ~= "back"
end
