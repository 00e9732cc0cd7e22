-- Whether this capability would need a group more than the cell may have. A group that its only node leaves makes room.
local function group_is_refused(node, signature, served, rules)
  if #served == 0 or redis.call("HEXISTS", KEY.signatures, signature) == 1 then
    return false
  end
  local number = redis.call("HLEN", KEY.groups)
  if node and node[NODE.group] > 0 then
    local first = STANDING.count * node[NODE.group]
    if redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1) == 1 then
      number = number - 1
    end
  end
  return number >= rules[RULE.max_groups]
end
