#!lua flags=allow-oom
--[[ route: a cell serves these pairs. It is written each time that a node comes, before it and after it, so that he who
  is about to say that the cell does not serve one of them any more can tell that somebody came meanwhile.
  KEYS  directory · routes
  ARGV  now_ms rules, then for each: { cell { pairs } }
  OUT   ROUTED version                                                                                              ]]
local answers = {}

local function join(cell, names)
  local written = {}
  for n, packed in ipairs(redis.call("HMGET", KEY.routes, unpack(names))) do
    local cells, is_there = packed and cmsgpack.unpack(packed) or {}, false
    for _, known in ipairs(cells) do
      is_there = is_there or known == cell
    end
    if not is_there then
      cells[#cells + 1] = cell
      written[#written + 1] = names[n]
      written[#written + 1] = cmsgpack.pack(cells)
    end
  end
  if #written > 0 then
    redis.call("HSET", KEY.routes, unpack(written))
  end
  return #written > 0
end

for i = 3, #ARGV do
  local cell, names = unpack(cmsgpack.unpack(ARGV[i]))
  local is_new = false
  -- A node of 64 languages may bring 4096.
  for from = 1, #names, 500 do
    is_new = join(cell, { unpack(names, from, math.min(from + 499, #names)) }) or is_new
  end
  redis.call("HINCRBY", KEY.directory, "routed:" .. cell, 1)
  local version = redis.call("HINCRBY", KEY.directory, "version", is_new and 1 or 0)
  answers[#answers + 1] = cmsgpack.pack({ "ROUTED", version })
end
return answers
