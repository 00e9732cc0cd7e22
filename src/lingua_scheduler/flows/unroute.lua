#!lua flags=allow-oom
--[[ unroute: a cell was seen not to serve these pairs any more. If a node has come to it since before it was looked at,
  it may serve them again, and nothing is done.
  KEYS  directory · routes
  ARGV  now_ms rules, then for each: { cell seen { pairs } }           (seen: how often nodes had come to it by then)
  OUT   UNROUTED number                                                                                             ]]
local answers = {}

local function without(cell, packed)
  local others = {}
  for _, known in ipairs(packed and cmsgpack.unpack(packed) or {}) do
    others[#others + 1] = known ~= cell and known or nil
  end
  return others
end

for i = 3, #ARGV do
  local cell, seen, names = unpack(cmsgpack.unpack(ARGV[i]))
  local number = 0
  if tonumber(redis.call("HGET", KEY.directory, "routed:" .. cell) or 0) == seen then
    for _, name in ipairs(names) do
      local packed = redis.call("HGET", KEY.routes, name)
      local others = without(cell, packed)
      if #others == 0 then
        number = number + redis.call("HDEL", KEY.routes, name)
      elseif cmsgpack.pack(others) ~= packed then
        redis.call("HSET", KEY.routes, name, cmsgpack.pack(others))
        number = number + 1
      end
    end
  end
  if number > 0 then
    redis.call("HINCRBY", KEY.directory, "version", 1)
  end
  answers[#answers + 1] = cmsgpack.pack({ "UNROUTED", number })
end
return answers
