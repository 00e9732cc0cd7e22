#!lua flags=no-writes
--[[ connections: which nodes have a socket at an instance, in pages.
  KEYS  profiles
  ARGV  now_ms rules, then for each: { instance cursor count }
  OUT   CONNECTIONS cursor { { node_id connection } }             (the last one's cursor is "0")                    ]]
local answers = {}

for i = 3, #ARGV do
  local instance, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local first, found = instance .. ".", {}
  local page = redis.call("HSCAN", KEY.profiles, cursor, "COUNT", count)
  for at = 1, #page[2], 2 do
    local connection = cmsgpack.unpack(page[2][at + 1])[PROFILE.connection]
    -- Behind the name of the instance there is a dot, and a nonce that has none.
    if string.sub(connection, 1, #first) == first and not string.find(connection, ".", #first + 1, true) then
      found[#found + 1] = { page[2][at], connection }
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "CONNECTIONS", page[1], found })
end
return answers
