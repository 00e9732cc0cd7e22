-- The memory of what is over ends, at most `limit` times: of ended jobs first the text and later the record, what an
-- operator wanted of a node that never came back, homes that were given up, where jobs went on to, guests, and nodes
-- that are gone. How many times, and whether more is due.
-- include: node_at, forget_node
local function forget(limit, now, rules)
  local members = redis.call("ZRANGEBYSCORE", KEY.due, DUE.forget, DUE.forget + now, "LIMIT", 0, limit)
  for _, member in ipairs(members) do
    local kind, id = string.sub(member, 1, 1), string.sub(member, 3)
    local gone_at = now
    if kind == "i" then
      redis.call("HDEL", KEY.intents, id)
    elseif kind == "d" then
      redis.call("HDEL", KEY.departed, id)
    elseif kind == "w" then
      redis.call("HDEL", KEY.jobs, id .. ":way")
    elseif kind == "g" then
      redis.call("HDEL", KEY.guests, id)
    else
      local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, id))
      local released_at = #job[JOB.past] > 0 and job[JOB.past][PAST.released_at_ms] or 0
      gone_at = job[JOB.ended_at_ms] + rules[RULE.job_record_ttl_ms]
      if released_at > 0 then
        gone_at = released_at + rules[RULE.released_ttl_ms]
      end
      redis.call("HDEL", KEY.jobs, id .. ":payload", id .. ":result")
      if now >= gone_at then
        redis.call("HDEL", KEY.jobs, id, id .. ":ticket")
      end
    end
    if now >= gone_at then
      redis.call("ZREM", KEY.due, member)
    else
      redis.call("ZADD", KEY.due, DUE.forget + gone_at, member)
    end
  end
  local gone = redis.call("ZRANGEBYSCORE", KEY.due, DUE.gone, DUE.gone + now, "LIMIT", 0, limit - #members)
  for _, member in ipairs(gone) do
    local node_id = string.sub(member, 3)
    forget_node(node_id, node_at(node_id), now, rules)
  end
  local more = redis.call("ZCOUNT", KEY.due, DUE.forget, DUE.forget + now) > 0
  return #members + #gone, more or redis.call("ZCOUNT", KEY.due, DUE.gone, DUE.gone + now) > 0
end
