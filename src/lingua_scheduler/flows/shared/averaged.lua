-- A moving average: the first time is taken whole, each later one by an eighth. 0 is not known yet, so that it is 1 at
-- least once something is.                                                                                       pure
local function averaged(average, latest)
  if average > 0 then
    latest = 7 * average + latest
    latest = (latest - latest % 8) / 8
  end
  return math.max(latest, 1)
end
