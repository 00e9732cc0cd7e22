#!lua flags=no-writes
--[[ node: everything known of a node, and the attempts that hold its slots.
  KEYS  nodes · profiles · groups · guests · leases · limbo
  ARGV  now_ms rules, then for each: { node_id }
  OUT   NODE record profile { pairs } { leases: lease fenced_at_ms (0 = not fenced) } { guests: lease }
        UNKNOWN_NODE                                                                                                ]]
-- include: leases_of
local answers = {}

for i = 3, #ARGV do
  local node_id = cmsgpack.unpack(ARGV[i])[1]
  local packed = redis.call("HGET", KEY.nodes, node_id)
  local answer = { "UNKNOWN_NODE" }
  if packed then
    local node = cmsgpack.unpack(packed)
    local profile = cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id))
    local group = redis.call("HGET", KEY.groups, node[NODE.group])
    local leases, guests = {}, {}
    for n, entry in ipairs(leases_of(node_id)) do
      leases[n] = { entry[1], tonumber(redis.call("HGET", KEY.limbo, entry[1]) or 0) }
      if redis.call("HEXISTS", KEY.guests, entry[2] .. ":" .. entry[3]) == 1 then
        guests[#guests + 1] = entry[1]
      end
    end
    answer = { "NODE", node, profile, group and cmsgpack.unpack(group)[GROUP.pairs] or {}, leases, guests }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
