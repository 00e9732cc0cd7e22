-- Count jobs by name in memory; `write_tally` writes the sums.
local tallied = {}

local function tally(name)
  tallied[name] = (tallied[name] or 0) + 1
end
