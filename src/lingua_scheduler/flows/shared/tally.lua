-- Count by name in memory; `write_tally` writes the sums.
local tallied = {}

local function tally(name, number)
  if number > 0 then
    tallied[name] = (tallied[name] or 0) + number
  end
end
