#!lua flags=no-writes
--[[ slots: a page of the cell's nodes, of each how many slots it has, how many are taken, its group, how it stands,
  how often it was gone lately, whether a service of it is marked, which its group's signature ends with, and whether it
  is under suspicion. A node that is there from the first page to the last is on one of them at least once.
  KEYS  nodes · signatures
  ARGV  now_ms rules, then for each: { cursor count }                       (cursor "0" = from the start)
  OUT   SLOTS cursor { node_id used max group standing gone is_marked is_suspect }                                 ]]
-- include: clock, times_gone, failures_of
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}
local signatures, marked = redis.call("HGETALL", KEY.signatures), {}
for n = 1, #signatures, 2 do
  marked[tonumber(signatures[n + 1])] = string.find(signatures[n], "+", 1, true) ~= nil
end

for i = 3, #ARGV do
  local cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local page = redis.call("HSCAN", KEY.nodes, cursor, "COUNT", count)
  local found = {}
  for n = 1, #page[2], 2 do
    local node = cmsgpack.unpack(page[2][n + 1])
    local gone = node[NODE.flaps] > 0 and times_gone(node, now, rules) or 0
    local is_marked = marked[node[NODE.group]] or false
    local used, max, group, standing = node[NODE.used], node[NODE.max], node[NODE.group], node[NODE.standing]
    local is_suspect = failures_of(node[NODE.recent]) >= SUSPICION.failures
    found[#found + 1] = { page[2][n], used, max, group, standing, gone, is_marked, is_suspect }
  end
  answers[#answers + 1] = cmsgpack.pack({ "SLOTS", page[1], found })
end
return answers
