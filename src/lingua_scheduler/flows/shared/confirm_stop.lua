-- A word about a fenced attempt that shows that its node is done with it: the job stays as it is, the limbo ends.
-- include: node_at, put_node, end_limbo
local function confirm_stop(job_id, attempt, node_id, now, rules)
  local node = node_at(node_id)
  if node and end_limbo(node_id, node, node_id .. ":" .. job_id .. ":" .. attempt, now, rules) then
    put_node(node_id, node)
  end
end
