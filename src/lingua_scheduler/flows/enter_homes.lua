#!lua flags=allow-oom
--[[ enter_homes: these nodes were seen in a cell: those of which the directory knows no home have it there. It may have
  lost them. Whose home is another cell is told: one of the two is wrong.
  KEYS  directory · cells · homes
  ARGV  now_ms rules, then for each: { cell { node_ids } }
  OUT   ENTERED number { node_id } (of these the home is elsewhere)                                                 ]]
-- include: clock, next_stamp
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local cell, node_ids = unpack(cmsgpack.unpack(ARGV[i]))
  local number, elsewhere = 0, {}
  for _, node_id in ipairs(node_ids) do
    local packed = redis.call("HGET", KEY.homes, node_id)
    if not packed then
      local home = NEW.home
      home[HOME.cell], home[HOME.stamp] = cell, next_stamp(now)
      redis.call("HSET", KEY.homes, node_id, cmsgpack.pack(home))
      number = number + 1
    elseif cmsgpack.unpack(packed)[HOME.cell] ~= cell then
      elsewhere[#elsewhere + 1] = node_id
    end
  end
  if redis.call("HEXISTS", KEY.cells, cell) == 0 then
    redis.call("HINCRBY", KEY.directory, "version", 1)
  end
  redis.call("HINCRBY", KEY.cells, cell, number)
  answers[#answers + 1] = cmsgpack.pack({ "ENTERED", number, elsewhere })
end
return answers
