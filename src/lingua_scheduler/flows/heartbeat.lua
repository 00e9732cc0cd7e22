#!lua flags=allow-oom
--[[ heartbeat: a sign of life, and whatever has changed. It cannot undo what the operator wants, nor a cut-off.
  What the node runs and nobody gave it, or took away without its word, takes slots until it has stopped. A fenced
  attempt that it does not name is over only if it said so long enough after the fence, whenever that is heard here.
  By a connection that does not speak for the node any more nothing can be said of it.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · jobs · guests · leases · limbo ·
        queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { node_id epoch word connection said_ms } capability
                     (epoch, connection "" = not told; said_ms: it was not said before that, 0 = it is said just now)
        word: any of reported max load running running_jobs; capability: packed, "" = as it was
  OUT   BEATEN epoch standing { cancel: { job attempt } } pairs crowded must_register (pairs: how many, -1 = as before)
        UNKNOWN_NODE | NODE_REPLACED | STALE_ATTEMPT                                                               ]]
-- include: clock, node_at, put_node, restand, look_again, come_back, slots_of, nonce_of, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV, 2 do
  local node_id, epoch, word, connection, said = unpack(cmsgpack.unpack(ARGV[i]))
  local capability = ARGV[i + 1]
  local node = node_at(node_id)
  local refused, profile, signature, served, crowded
  if not node then
    refused = "UNKNOWN_NODE"
  elseif connection ~= "" and nonce_of(connection) ~= node[NODE.nonce] then
    refused = "NODE_REPLACED"
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
      if group_is_refused(node, signature, served, rules) then
        -- It serves nothing, for what it served before it has taken back; its next word is looked at anew.
        served, crowded, profile[PROFILE.update] = {}, true, ""
      end
    end
  end

  local answer = { refused }
  if not refused then
    local left, cancel, has_more
    local fenced_before = (said > 0 and math.min(said, now) or now) - rules[RULE.confirm_after_ms]
    node[NODE.seen_at_ms] = now
    node[NODE.reported] = word.reported or node[NODE.reported]
    node[NODE.own_max] = word.max or node[NODE.own_max]
    node[NODE.max] = slots_of(node)
    if signature then
      -- include: join_group
      left = node[NODE.group]
      node[NODE.group] = join_group(signature, served, profile)
    end
    if profile then
      redis.call("HSET", KEY.profiles, node_id, cmsgpack.pack(profile))
    end
    if word.running then
      -- include: settle_running, has_let_go, admit
      local _, strangers
      cancel, _, strangers = settle_running(node_id, node, word.running, fenced_before, now, rules)
      for _, entry in ipairs(strangers) do
        if not has_let_go(entry[2], entry[3], node_id) then
          admit(node, entry[1], now, rules)
          has_more = true
        end
      end
    elseif word.running_jobs and node[NODE.limbo] > word.running_jobs then
      -- include: leases_of, end_limbo
      -- A fresh fence is not counted: its attempt may still be on its way to the node, and so not in the number.
      local old = {}
      for _, entry in ipairs(leases_of(node_id)) do
        local fenced_at = tonumber(redis.call("HGET", KEY.limbo, entry[1]))
        if fenced_at and fenced_at <= fenced_before then
          old[#old + 1] = entry[1]
        end
      end
      for n = 1, #old - word.running_jobs do
        end_limbo(node_id, node, old[n], now, rules)
      end
    end
    node[NODE.ceiling] = math.max(node[NODE.max], node[NODE.used])
    come_back(node_id, node, now, rules)
    restand(node, now, rules)
    put_node(node_id, node)
    -- A lost node that only goes on beating is forgotten in its time.
    if has_more or node[NODE.lost_at_ms] == 0 then
      look_again(node_id, node, now, rules)
    end
    if left then
      -- include: leave_group
      leave_group(left)
    end
    local pairs_served, must_register = served and #served or -1, node[NODE.cut_off] == 1
    if node[NODE.away_until_ms] > 0 and not must_register then
      -- Nobody holds a socket of it who would take it in again: it is doubted, and must say what it runs.
      local known = profile or cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id))
      must_register = known[PROFILE.connection] == ""
    end
    local standing = node[NODE.standing]
    answer = { "BEATEN", node[NODE.epoch], standing, cancel or {}, pairs_served, crowded or false, must_register }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
