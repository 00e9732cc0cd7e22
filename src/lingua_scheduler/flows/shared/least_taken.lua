-- The one with the lowest share of its slots taken, of eight different random ones, or of all if there are no more;
-- equal: the healthiest, and of these the one that is drawn first.
-- include: draw, node_at, failures_of
local function least_taken(job, free, node_number)
  local drawn, ids = {}, {}
  for n = 1, math.min(8, free) do
    -- Of the positions that are left: those that were drawn, in order, are stepped over.
    local position = draw(job, free - n + 1)
    for _, other in ipairs(drawn) do
      if position >= other then
        position = position + 1
      end
    end
    drawn[n] = position
    table.sort(drawn)
    ids[n] = node_number(position)
  end

  local best, best_used, best_max, best_health
  for n, packed in ipairs(redis.call("HMGET", KEY.nodes, unpack(ids))) do
    if packed then
      local _, used, max, _, recent, ack_ms = cmsgpack.unpack_limit(packed, 5, NODE.header)
      -- Of equally loaded nodes: `core/health.py` without the load.
      local health = -HEALTH.failure * failures_of(recent)
        - math.min(HEALTH.slow_acks, math.floor(ack_ms / HEALTH.slow_ack_ms))
      local less = best and used * best_max - best_used * max
      if not best or less < 0 or less == 0 and health > best_health then
        best, best_used, best_max, best_health = n, used, max, health
      end
      glanced[ids[n]] = packed
    end
  end
  if best then
    return ids[best], node_at(ids[best])
  end
end
