#!lua flags=allow-oom
--[[ mark: a service of a node was seen not to work. Until the mark ends, the node gets no job that needs the service.
  The same again within a moment is not counted, and a node that is marked too often is left as it is. By a connection
  that does not speak for the node any more nobody marks it.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · jobs · leases · queue · due
        · outbox · counts
  ARGV  now_ms rules, then for each: { node_id service type connection }
                                                            (type "" = the whole node; connection "" = not told)
  OUT   MARKED until_ms | DEBOUNCED until_ms | LIMITED | UNKNOWN_NODE | NODE_REPLACED                              ]]
-- include: clock, node_at, nonce_of, regroup, watch_marks, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local node_id, service, kind, connection = unpack(cmsgpack.unpack(ARGV[i]))
  local node = node_at(node_id)
  local answer = { "UNKNOWN_NODE" }
  if node and connection ~= "" and nonce_of(connection) ~= node[NODE.nonce] then
    answer = { "NODE_REPLACED" }
  elseif node then
    local profile, known = cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id)), nil
    for _, mark in ipairs(profile[PROFILE.marks]) do
      known = mark[MARK.service] == service and mark or known
    end
    if now - profile[PROFILE.marking_since_ms] >= rules[RULE.mark_window_ms] then
      profile[PROFILE.marking_since_ms], profile[PROFILE.marked] = now, 0
    end
    if known and now - known[MARK.marked_at_ms] < rules[RULE.mark_debounce_ms] then
      answer = { "DEBOUNCED", known[MARK.until_ms] }
    elseif profile[PROFILE.marked] >= rules[RULE.max_marked] or not known and #profile[PROFILE.marks] >= MARKS.most then
      answer = { "LIMITED" }
    else
      if not known then
        known = NEW.mark
        profile[PROFILE.marks][#profile[PROFILE.marks] + 1] = known
      end
      known[MARK.service], known[MARK.type] = service, kind
      known[MARK.marked_at_ms], known[MARK.until_ms] = now, now + rules[RULE.mark_ttl_ms]
      profile[PROFILE.marked] = profile[PROFILE.marked] + 1
      watch_marks(node_id, profile)
      regroup(node_id, node, profile)
      answer = { "MARKED", known[MARK.until_ms] }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
  serve(now)
end
write_tally()
return answers
