-- Whether this capability would need a group more than the cell may have.
local function group_is_refused(signature, served, rules)
  return #served > 0
    and redis.call("HEXISTS", KEY.signatures, signature) == 0
    and redis.call("HLEN", KEY.groups) >= rules[RULE.max_groups]
end
