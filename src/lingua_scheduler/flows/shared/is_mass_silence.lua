-- Whether more than half of the fleet fell silent within one window: then it is rather we who do not hear. Nobody is
-- given up for it, and somebody is told, once a minute. A yes holds for the whole run, in which nobody speaks: however
-- many are silent, they are counted once. Of other cells counts what was told of them lately.
-- include: who_is_heard, post
local are_we_deaf = false

local function is_mass_silence(now, rules)
  if are_we_deaf then
    return true
  end
  local silent, heard = who_is_heard()
  local counts = redis.call("HMGET", KEY.counts, "silence", "others_at", "others_silent", "others_heard")
  if now < (counts[2] or 0) + 20000 then
    silent, heard = silent + (counts[3] or 0), heard + (counts[4] or 0)
  end
  if silent <= heard or silent + heard < rules[RULE.mass_silence_nodes] then
    return false
  end
  if now - (counts[1] or 0) >= 60000 then
    redis.call("HSET", KEY.counts, "silence", now)
    post("mass_silence", "", silent, "", "", tostring(heard), now)
  end
  are_we_deaf = true
  return true
end
