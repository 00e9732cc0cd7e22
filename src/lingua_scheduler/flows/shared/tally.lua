-- Count jobs by name in memory; `write_tally` writes the sums, one call for each name.
local tallied = {}

local function tally(name)
  tallied[name] = (tallied[name] or 0) + 1
end
