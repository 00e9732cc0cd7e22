-- A word that shows that a node is done with an attempt: the job stays as it is, and if it was fenced, the limbo ends.
-- Also if it had said so before: a claim that it runs the attempt may have come in between.
-- include: node_at, put_node, end_limbo
local function confirm_stop(job_id, attempt, node_id, now, rules)
  local node = node_at(node_id)
  if node and end_limbo(node_id, node, node_id .. ":" .. job_id .. ":" .. attempt, now, rules) then
    put_node(node_id, node)
  end
end
