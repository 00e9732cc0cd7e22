-- What a node can do has changed by a mark: it moves to the group of its like. Where there is no room for one more
-- kind, it serves nothing until its next word is looked at anew.
-- include: put_node, served_pairs, signature_of, group_is_refused, join_group, leave_group
local function regroup(node_id, node, profile, rules)
  local left, served = node[NODE.group], served_pairs(profile)
  local signature = signature_of(profile, served)
  if group_is_refused(node, signature, served, rules) then
    served, profile[PROFILE.update] = {}, ""
  end
  node[NODE.group] = join_group(signature, served, profile)
  redis.call("HSET", KEY.profiles, node_id, cmsgpack.pack(profile))
  put_node(node_id, node)
  leave_group(left)
end
