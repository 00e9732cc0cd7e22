-- A number that no home had before: the time, or more. After a fail-over that lost the last ones it is the time again.
local function next_stamp(now)
  local last = tonumber(redis.call("HGET", KEY.directory, "stamp") or 0)
  local stamp = math.max(now, last + 1)
  redis.call("HSET", KEY.directory, "stamp", stamp)
  return stamp
end
