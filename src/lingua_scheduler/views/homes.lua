#!lua flags=no-writes
--[[ homes: a page of the nodes that have a home.
  KEYS  homes
  ARGV  now_ms rules, then for each: { cursor count }
  OUT   HOMES cursor { node_id { cell stamp } }                                                                     ]]
local answers = {}

for i = 3, #ARGV do
  local cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local page, found = redis.call("HSCAN", KEY.homes, cursor, "COUNT", count), {}
  for n = 1, #page[2], 2 do
    found[#found + 1] = { page[2][n], cmsgpack.unpack(page[2][n + 1]) }
  end
  answers[#answers + 1] = cmsgpack.pack({ "HOMES", page[1], found })
end
return answers
