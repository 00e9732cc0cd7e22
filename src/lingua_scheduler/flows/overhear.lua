#!lua flags=allow-oom
--[[ overhear: a cell is told how many nodes of all others are silent, and how many are heard. That counts for a while
  when the cell asks itself whether the whole fleet fell silent.
  KEYS  counts
  ARGV  now_ms rules, then for each: { silent heard }
  OUT   OVERHEARD                                                                                                   ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local silent, heard = unpack(cmsgpack.unpack(ARGV[i]))
  redis.call("HSET", KEY.counts, "others_silent", silent, "others_heard", heard, "others_at", now)
  answers[#answers + 1] = cmsgpack.pack({ "OVERHEARD" })
end
return answers
