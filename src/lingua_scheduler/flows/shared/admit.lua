-- The node works on something that nobody gave it: that takes a slot until it has stopped.
-- include: enter_limbo
local function admit(node, lease, now, rules)
  redis.call("ZADD", KEY.leases, 0, lease)
  node[NODE.used] = node[NODE.used] + 1
  enter_limbo(node, lease, now, rules)
end
