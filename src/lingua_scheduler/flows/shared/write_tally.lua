-- Write what was tallied in this run, one call for each name. The last act of every flow that accepts or ends jobs.
-- include: tally
local function write_tally()
  for name, number in pairs(tallied) do
    redis.call("HINCRBY", KEY.counts, name, number)
    tallied[name] = nil
  end
end
