#!lua flags=no-writes
--[[ home: the cell in which a node is at home.
  KEYS  homes
  ARGV  now_ms rules, then for each: { node_id }
  OUT   HOME cell stamp | NOWHERE                                                                                   ]]
local answers = {}

for i = 3, #ARGV do
  local packed = redis.call("HGET", KEY.homes, cmsgpack.unpack(ARGV[i])[1])
  local home = packed and cmsgpack.unpack(packed)
  answers[#answers + 1] = cmsgpack.pack(home and { "HOME", home[HOME.cell], home[HOME.stamp] } or { "NOWHERE" })
end
return answers
