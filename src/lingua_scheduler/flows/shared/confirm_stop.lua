-- A word that shows that a node is done with an attempt: the job stays as it is, and if it was fenced, the limbo ends.
-- Also if it had said so before: a claim that it runs the attempt may have come in between. Of a node of another cell,
-- as the attempt's entry in the past has it, that cell hears of it.
-- include: node_at, put_node, end_limbo
local function confirm_stop(job_id, attempt, node_id, entry, now, rules)
  if entry and entry[PAST_ATTEMPT.cell] ~= "" then
    -- include: let_go
    let_go(job_id, attempt, entry[PAST_ATTEMPT.cell], node_id, "confirmed", 0, now)
    return
  end
  local node = node_at(node_id)
  if node and end_limbo(node_id, node, node_id .. ":" .. job_id .. ":" .. attempt, now, rules) then
    put_node(node_id, node)
  end
end
