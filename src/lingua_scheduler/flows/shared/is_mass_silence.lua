-- Whether more than half of the fleet fell silent within one window: then it is rather we who do not hear. Nobody is
-- given up for it, and somebody is told, once a minute. A yes holds for the whole run, in which nobody speaks: however
-- many are silent, they are counted once.
-- include: post
local are_we_deaf = false

local function is_mass_silence(now, rules)
  if are_we_deaf then
    return true
  end
  local silent, heard, groups = 0, 0, redis.call("HKEYS", KEY.groups)
  groups[#groups + 1] = 0
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    silent = silent + redis.call("ZCOUNT", KEY.standing, first + STANDING.stale, first + STANDING.stale)
    heard = heard + redis.call("ZCOUNT", KEY.standing, first, "(" .. first + STANDING.stale)
  end
  if silent <= heard or silent + heard < rules[RULE.mass_silence_nodes] then
    return false
  end
  if now - (redis.call("HGET", KEY.counts, "silence") or 0) >= 60000 then
    redis.call("HSET", KEY.counts, "silence", now)
    post("mass_silence", "", silent, "", "", tostring(heard), now)
  end
  are_we_deaf = true
  return true
end
