-- A node rests from now on. Of one that rests already people have been told.
-- include: post
local function begin_rest(node_id, node, rest_ms, why, now)
  if node[NODE.rest_until_ms] <= now then
    post("resting", "", rest_ms, node_id, node[NODE.epoch], why, now)
  end
  node[NODE.rest_until_ms] = math.max(node[NODE.rest_until_ms], now + rest_ms)
end
