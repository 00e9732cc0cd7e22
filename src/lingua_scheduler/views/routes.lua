#!lua flags=no-writes
--[[ routes: all cells with the number of nodes that are at home there; and which of them serve these pairs.
  KEYS  directory · cells · routes
  ARGV  now_ms rules, then for each: { { pairs } }
  OUT   ROUTES version { cell nodes } { { cells } for each pair }                                                   ]]
local answers = {}

for i = 3, #ARGV do
  local names = cmsgpack.unpack(ARGV[i])[1]
  local listed, cells, found = redis.call("HGETALL", KEY.cells), {}, {}
  for n = 1, #listed, 2 do
    cells[#cells + 1] = { listed[n], tonumber(listed[n + 1]) }
  end
  for n, packed in ipairs(#names > 0 and redis.call("HMGET", KEY.routes, unpack(names)) or {}) do
    found[n] = packed and cmsgpack.unpack(packed) or {}
  end
  local version = tonumber(redis.call("HGET", KEY.directory, "version") or 0)
  answers[#answers + 1] = cmsgpack.pack({ "ROUTES", version, cells, found })
end
return answers
