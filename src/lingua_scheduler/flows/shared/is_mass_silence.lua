-- Whether more than half of the fleet fell silent within one window: then it is rather we who do not hear. Nobody is
-- given up for it, and somebody is told, once a minute. The answer holds for the whole run, in which nobody speaks, and
-- who is given up was silent. Of other cells counts what was told of them lately; when that was is answered, too.
-- include: who_is_heard, post
local are_we_deaf, others_at

local function is_mass_silence(now, rules)
  if are_we_deaf ~= nil then
    return are_we_deaf, others_at
  end
  local silent, heard = who_is_heard(now, rules)
  local counts = redis.call("HMGET", KEY.counts, "silence", "others_at", "others_silent", "others_heard")
  others_at = tonumber(counts[2] or 0)
  if now < others_at + 20000 then
    silent, heard = silent + counts[3], heard + counts[4]
  end
  are_we_deaf = silent > heard and silent + heard >= rules[RULE.mass_silence_nodes]
  if are_we_deaf and now - (counts[1] or 0) >= 60000 then
    redis.call("HSET", KEY.counts, "silence", now)
    post("mass_silence", "", silent, "", "", tostring(heard), now)
  end
  return are_we_deaf, others_at
end
