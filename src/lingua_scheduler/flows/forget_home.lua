#!lua flags=allow-oom
--[[ forget_home: a node that its cell does not know any more, nor will let in with this stamp, gives its place back.
  Whoever has asked for its home since then has another stamp, and keeps it.
  KEYS  cells · homes
  ARGV  now_ms rules, then for each: { node_id cell stamp }
  OUT   FORGOTTEN was_there                                                                                         ]]
local answers = {}

for i = 3, #ARGV do
  local node_id, cell, stamp = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.homes, node_id)
  local home = packed and cmsgpack.unpack(packed)
  local was_there = home and home[HOME.cell] == cell and home[HOME.stamp] == stamp or false
  if was_there then
    redis.call("HDEL", KEY.homes, node_id)
    redis.call("HINCRBY", KEY.cells, cell, -1)
  end
  answers[#answers + 1] = cmsgpack.pack({ "FORGOTTEN", was_there })
end
return answers
