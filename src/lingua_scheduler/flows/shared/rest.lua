-- A node gets nothing for a moment, without blame; people are told, and `why`. Writing its record is the caller's.
-- include: restand, look_again, begin_rest
local function rest(node_id, node, rest_ms, why, now, rules)
  begin_rest(node_id, node, rest_ms, why, now)
  restand(node, now, rules)
  look_again(node_id, node, now, rules)
end
