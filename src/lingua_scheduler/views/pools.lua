#!lua flags=no-writes
--[[ pools: a page of a cell's pairs, or one: which groups serve each, and how many jobs wait for it. A pair that is
  there from the first page to the last is on one of them at least once.
  KEYS  groups · pairs · queue
  ARGV  now_ms rules, then for each: { pair cursor count }                  (pair "" = all; cursor "0" = from the start)
  OUT   POOLS cursor { pair waiting { groups } }                            (src:* = every target)                 ]]
-- include: groups_of
local answers = {}

local function pool(pair)
  local line = "w" .. (string.match(pair, "^(.+):%*$") or pair)
  return { pair, redis.call("ZLEXCOUNT", KEY.queue, "[" .. line .. ":", "(" .. line .. ";"), groups_of(pair, 0) }
end

for i = 3, #ARGV do
  local pair, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local pools = {}
  if pair ~= "" then
    cursor, pools[1] = "0", pool(pair)
  else
    local page = redis.call("HSCAN", KEY.pairs, cursor, "COUNT", count)
    cursor = page[1]
    for n = 1, #page[2], 2 do
      pools[#pools + 1] = pool(page[2][n])
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "POOLS", cursor, pools })
end
return answers
