-- Whoever was sent here for a node with this stamp, or an earlier one, is late: its home may be elsewhere by now. For a
-- day, which is longer than anybody sleeps.
local function shut_out(node_id, stamp, now)
  local last = tonumber(redis.call("HGET", KEY.departed, node_id) or 0)
  redis.call("HSET", KEY.departed, node_id, math.max(last, stamp))
  redis.call("ZADD", KEY.due, DUE.forget + now + DEPARTED.ms, "d:" .. node_id)
end
