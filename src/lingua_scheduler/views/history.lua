#!lua flags=no-writes
--[[ history: how the fleet was in the last hour, a point for each stretch of time in which anybody said so.
  KEYS  history
  ARGV  now_ms rules, then for each: { }
  OUT   HISTORY now_ms { { stretch point } }                                                                        ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}
local first = math.floor(now / HISTORY.stretch_ms) - HISTORY.stretches

for _ = 3, #ARGV do
  local found = {}
  for _, kept in ipairs(redis.call("HVALS", KEY.history)) do
    local entry = cmsgpack.unpack(kept)
    if entry[1] > first then
      found[#found + 1] = entry
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "HISTORY", now, found })
end
return answers
