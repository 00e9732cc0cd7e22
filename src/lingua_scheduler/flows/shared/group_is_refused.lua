-- Whether this capability would be a kind more than the cell may have. Marks make groups, but no kinds; a kind that its
-- only node leaves makes room. Only a cell that is nearly full is looked at closely.
local function group_is_refused(node, signature, served, rules)
  if #served == 0 or redis.call("HLEN", KEY.groups) < rules[RULE.max_groups] then
    return false
  end
  local kind, number, groups = string.sub(signature, 1, 40), 0, {}
  for _, other in ipairs(redis.call("HKEYS", KEY.signatures)) do
    local its_kind = string.sub(other, 1, 40)
    number = number + (groups[its_kind] and 0 or 1)
    groups[its_kind] = (groups[its_kind] or 0) + 1
  end
  if groups[kind] then
    return false
  end
  if node and node[NODE.group] > 0 then
    local first = STANDING.count * node[NODE.group]
    local record = cmsgpack.unpack(redis.call("HGET", KEY.groups, node[NODE.group]))
    local is_only = redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1) == 1
    if is_only and groups[string.sub(record[GROUP.signature], 1, 40)] == 1 then
      number = number - 1
    end
  end
  return number >= rules[RULE.max_groups]
end
