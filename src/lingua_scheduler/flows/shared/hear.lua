-- A node spoke. Written down once in `HEARD.step_ms`: silence is counted in tens of seconds, and this is on the way of
-- every message, so that a glance must do. One that was taken for dead is judged anew by whoever next settles what is
-- due.
-- include: node_at
local function hear(node_id, epoch, now)
  local node, seen_at = known_nodes[node_id], nil
  if node then
    seen_at = node[NODE.seen_at_ms]
  elseif node == nil then
    local packed = redis.call("HGET", KEY.nodes, node_id)
    if packed then
      local _, _, _, glance = cmsgpack.unpack_limit(packed, 3, NODE.header)
      glanced[node_id], seen_at = packed, glance
    end
  end
  if not seen_at or now - seen_at < HEARD.step_ms then
    return
  end
  node = node_at(node_id)
  if epoch ~= "" and epoch ~= node[NODE.epoch] then
    return
  end
  node[NODE.seen_at_ms] = now
  redis.call("HSET", KEY.nodes, node_id, cmsgpack.pack(node))
  if node[NODE.standing] == STANDING.stale then
    redis.call("ZADD", KEY.due, now, "n:" .. node_id)
  end
end
