#!lua flags=no-writes
--[[ memory: where the last jobs of a session went.
  KEYS  memory
  ARGV  now_ms rules, then for each: { turn utterance }
  OUT   MEMORY node pool bound { seen } { jobs }   (bound "" = no node has this turn; the utterance's nodes and jobs) ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local turn, utterance = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.memory)
  local memory = packed and cmsgpack.unpack(packed) or NEW.memory
  local bound, seen, jobs = "", {}, {}
  for _, entry in ipairs(memory[MEMORY.turns]) do
    if entry[1] == turn and entry[3] > now then
      bound = entry[2]
    end
  end
  for _, entry in ipairs(memory[MEMORY.seen]) do
    if entry[1] == utterance then
      seen[#seen + 1], jobs[#jobs + 1] = entry[2], entry[3]
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "MEMORY", memory[MEMORY.node], memory[MEMORY.pool], bound, seen, jobs })
end
return answers
