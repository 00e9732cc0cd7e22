#!lua flags=allow-oom
--[[ remember: where a job of a session went, so that the next one can go there too, or elsewhere.
  KEYS  memory
  ARGV  now_ms rules, then for each: { node_id pool turn utterance job_id } (turn, job "" = none; utterance -1 = none)
  OUT   REMEMBERED                                                                                                 ]]
-- include: clock
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

-- A list with this at its end, once, and no longer than it may be.
local function with(list, entry, is_other)
  local kept = {}
  for _, old in ipairs(list) do
    if is_other(old) then
      kept[#kept + 1] = old
    end
  end
  kept[#kept + 1] = entry
  if #kept > REMEMBERED.most then
    table.remove(kept, 1)
  end
  return kept
end

for i = 3, #ARGV do
  local node_id, pool, turn, utterance, job_id = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.memory)
  local memory = packed and cmsgpack.unpack(packed) or NEW.memory
  memory[MEMORY.node] = node_id
  memory[MEMORY.pool] = pool ~= "" and pool or memory[MEMORY.pool]
  if turn ~= "" then
    local until_ms = now + rules[RULE.binding_ttl_ms]
    memory[MEMORY.turns] = with(memory[MEMORY.turns], { turn, node_id, until_ms }, function(old)
      return old[1] ~= turn and old[3] > now
    end)
  end
  if utterance >= 0 then
    memory[MEMORY.seen] = with(memory[MEMORY.seen], { utterance, node_id, job_id }, function(old)
      return old[1] ~= utterance or old[2] ~= node_id or old[3] ~= job_id
    end)
  end
  redis.call("SET", KEY.memory, cmsgpack.pack(memory), "PX", rules[RULE.binding_ttl_ms])
  answers[#answers + 1] = cmsgpack.pack({ "REMEMBERED" })
end
return answers
