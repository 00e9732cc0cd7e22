-- The one clock: the engine's own, in milliseconds. Tests hand in theirs.
local function clock(given_ms)
  if given_ms ~= "" then
    return tonumber(given_ms)
  end
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
