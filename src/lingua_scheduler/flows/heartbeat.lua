#!lua flags=allow-oom
--[[ heartbeat: a sign of life, and whatever has changed. It cannot undo a drain, nor an eviction, nor a cut-off.
  ARGV  now_ms rules, then for each: { node_id epoch word } capability      (epoch "" = not told)
        word: any of reported max load running running_jobs; capability: packed, "" = as it was
  OUT   BEATEN epoch standing { cancel: { job attempt } } | UNKNOWN_NODE | STALE_ATTEMPT | CELL_FULL               ]]
-- include: clock, node_at, put_node, restand, look_again
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV, 2 do
  local node_id, epoch, word = unpack(cmsgpack.unpack(ARGV[i]))
  local capability = ARGV[i + 1]
  local node = node_at(node_id)
  local refused, profile, signature, served
  if not node then
    refused = "UNKNOWN_NODE"
  elseif epoch ~= "" and epoch ~= node[NODE.epoch] then
    refused = "STALE_ATTEMPT"
  elseif capability ~= "" or word.load then
    profile = cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id))
    profile[PROFILE.load] = word.load or profile[PROFILE.load]
    local digest = capability ~= "" and redis.sha1hex(capability)
    if digest and digest ~= profile[PROFILE.update] then
      -- include: take_word, served_pairs, signature_of, group_is_refused
      take_word(profile, cmsgpack.unpack(capability))
      profile[PROFILE.update] = digest
      served = served_pairs(profile)
      signature = signature_of(profile, served)
      if group_is_refused(signature, served, rules) then
        refused = "CELL_FULL"
      end
    end
  end

  if refused then
    answers[#answers + 1] = cmsgpack.pack({ refused })
  else
    node[NODE.seen_at_ms] = now
    node[NODE.reported] = word.reported or node[NODE.reported]
    node[NODE.max] = word.max or node[NODE.max]
    local left
    if signature then
      -- include: join_group
      left = node[NODE.group]
      node[NODE.group] = join_group(signature, served)
    end
    if profile then
      redis.call("HSET", KEY.profiles, node_id, cmsgpack.pack(profile))
    end
    local cancel = {}
    if word.running then
      -- include: settle_running
      cancel = settle_running(node_id, node, word.running, now - rules[RULE.confirm_after_ms], now, rules)
    elseif word.running_jobs and node[NODE.limbo] > word.running_jobs then
      -- include: leases_of, end_limbo
      -- A fresh fence is not counted: its attempt may still be on its way to the node, and so not in the number.
      local old = {}
      for _, entry in ipairs(leases_of(node_id)) do
        local fenced_at = tonumber(redis.call("HGET", KEY.limbo, entry[1]))
        if fenced_at and fenced_at <= now - rules[RULE.confirm_after_ms] then
          old[#old + 1] = entry[1]
        end
      end
      for n = 1, #old - word.running_jobs do
        end_limbo(node_id, node, old[n], now, rules)
      end
    end
    if node[NODE.limbo] == 0 then
      node[NODE.lost_at_ms] = 0
    end
    node[NODE.ceiling] = math.max(node[NODE.max], node[NODE.used])
    restand(node, now, rules)
    put_node(node_id, node)
    if signature then
      -- include: leave_group
      leave_group(left)
    end
    look_again(node_id, node, now, rules)
    answers[#answers + 1] = cmsgpack.pack({ "BEATEN", node[NODE.epoch], node[NODE.standing], cancel })
  end
end
return answers
