-- Everything overdue, at most `limit` entries, attempts of lost nodes and jobs that waited for what came free (and once
-- what one entry brings beyond it), so that no sweep holds up the engine. What
-- one entry settles may settle another: each is looked at only if it is still due. Says how many entries were settled
-- and whether more are due.
-- include: settle_job, settle_limbo, settle_node, serve
local function settle(limit, now, rules)
  local settled, moved = 0, 0
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", KEY.due, "-inf", now, "LIMIT", 0, limit)) do
    if settled + moved >= limit then
      break
    end
    local at = tonumber(redis.call("ZSCORE", KEY.due, member))
    if at and at <= now then
      local kind, id = string.sub(member, 1, 1), string.sub(member, 3)
      if kind == "j" then
        settle_job(id, now, rules)
      elseif kind == "l" then
        settle_limbo(id, now, rules)
      elseif kind == "n" then
        moved = moved + settle_node(id, limit - settled - moved, now, rules)
      elseif kind == "g" then
        -- include: lose_guest
        lose_guest(id, CAUSE.expired, CAUSE.expired, now, rules)
      else
        redis.call("ZREM", KEY.due, member)
        if kind == "m" then
          -- include: settle_marks
          settle_marks(id, now)
        elseif kind == "r" then
          woken[1] = id
        else
          has_fallen = true
        end
      end
      moved = moved + serve(now)
      settled = settled + 1
    end
  end
  return settled, redis.call("ZCOUNT", KEY.due, "-inf", now) > 0
end
