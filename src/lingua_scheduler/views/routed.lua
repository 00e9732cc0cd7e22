#!lua flags=no-writes
--[[ routed: a page of the pairs that a cell serves as the directory has it, and how often nodes have come to the cell.
  KEYS  directory · routes
  ARGV  now_ms rules, then for each: { cell cursor count }
  OUT   ROUTED cursor seen { pairs }                                                                                ]]
local answers = {}

for i = 3, #ARGV do
  local cell, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local page, found = redis.call("HSCAN", KEY.routes, cursor, "COUNT", count), {}
  for n = 1, #page[2], 2 do
    for _, known in ipairs(cmsgpack.unpack(page[2][n + 1])) do
      if known == cell then
        found[#found + 1] = page[2][n]
      end
    end
  end
  local seen = tonumber(redis.call("HGET", KEY.directory, "routed:" .. cell) or 0)
  answers[#answers + 1] = cmsgpack.pack({ "ROUTED", page[1], seen, found })
end
return answers
