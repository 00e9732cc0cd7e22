-- A node has not confirmed in time that it stopped. One that could have told gets no work until it registers again,
-- and its slot stays taken; a legacy node that cannot tell is given the benefit of the doubt.
-- include: node_at, put_node, restand, end_limbo, post
local function settle_limbo(lease, now, rules)
  local node_id, job_id, attempt = string.match(lease, "^([^:]+):([^:]+):(%d+)$")
  local node = node_at(node_id)
  local outcome
  if node[NODE.tells] == 1 then
    outcome = "cut_off"
    node[NODE.cut_off] = 1
    restand(node, now, rules)
    redis.call("ZREM", KEY.due, "l:" .. lease)
  else
    outcome = "forgiven"
    end_limbo(node_id, node, lease, now, rules)
  end
  put_node(node_id, node)
  post(outcome, job_id, tonumber(attempt), node_id, node[NODE.epoch], "", now)
end
