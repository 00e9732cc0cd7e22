-- A node spoke. Written down once in `HEARD.step_ms`: silence is counted in tens of seconds, and this is on the way of
-- every message. One that was taken for dead is judged anew by whoever next settles what is due.
-- include: node_at
local function hear(node_id, epoch, now)
  if known_nodes[node_id] == nil then
    local packed = redis.call("HGET", KEY.nodes, node_id)
    if not packed then
      return
    end
    glanced[node_id] = packed
    local _, _, _, seen_at = cmsgpack.unpack_limit(packed, 3, NODE.header)
    if now - seen_at < HEARD.step_ms then
      return
    end
  end
  local node = node_at(node_id)
  if not node or (epoch ~= "" and epoch ~= node[NODE.epoch]) or now - node[NODE.seen_at_ms] < HEARD.step_ms then
    return
  end
  node[NODE.seen_at_ms] = now
  redis.call("HSET", KEY.nodes, node_id, cmsgpack.pack(node))
  if node[NODE.standing] == STANDING.stale and node[NODE.lost_at_ms] == 0 then
    redis.call("ZADD", KEY.due, now, "n:" .. node_id)
  end
end
