-- The attempt behind this lease is fenced, but its node may still be at work on it: the slot stays taken.
local function enter_limbo(node, lease, now, rules)
  node[NODE.limbo] = node[NODE.limbo] + 1
  redis.call("HSET", KEY.limbo, lease, now)
  redis.call("ZADD", KEY.due, now + rules[RULE.limbo_ttl_ms], "l:" .. lease)
end
