#!lua flags=no-writes
--[[ pools: a page of a cell's pairs, or one, and how their nodes stand. Costs some counts for each group, whatever its
  size. A pair that is there from the first page to the last is on one of them at least once.
  KEYS  standing · groups · pairs
  ARGV  now_ms rules, then for each: { pair cursor count }                  (pair "" = all; cursor "0" = from the start)
  OUT   POOLS cursor { pair { nodes by standing } }                                                                ]]
-- include: groups_of
local answers, counted = {}, {}

local function by_standing(group)
  if not counted[group] then
    counted[group] = {}
    for standing = 0, STANDING.last do
      local score = STANDING.count * group + standing
      counted[group][standing + 1] = redis.call("ZCOUNT", KEY.standing, score, score)
    end
  end
  return counted[group]
end

local function pool(pair)
  local numbers = {}
  for n = 1, STANDING.last + 1 do
    numbers[n] = 0
    for _, group in ipairs(groups_of(pair, 0)) do
      numbers[n] = numbers[n] + by_standing(group)[n]
    end
  end
  return { pair, numbers }
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
