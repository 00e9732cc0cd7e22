#!lua flags=no-writes
--[[ pools: the pairs of a cell, and how their nodes stand. Costs a count for each group, whatever its size.
  ARGV  now_ms rules, then for each: { pair }                               (pair "" = all)
  OUT   POOLS { pair { nodes by standing } }                                                                       ]]
-- include: groups_of
local answers = {}

local function by_standing(groups)
  local numbers = {}
  for standing = 0, STANDING.count - 1 do
    numbers[standing + 1] = 0
    for _, group in ipairs(groups) do
      local score = STANDING.count * group + standing
      numbers[standing + 1] = numbers[standing + 1] + redis.call("ZCOUNT", KEY.standing, score, score)
    end
  end
  return numbers
end

for i = 3, #ARGV do
  local pair = cmsgpack.unpack(ARGV[i])[1]
  local wanted = pair ~= "" and { pair } or redis.call("HKEYS", KEY.pairs)
  table.sort(wanted)
  local pools = {}
  for n, name in ipairs(wanted) do
    pools[n] = { name, by_standing(groups_of(name)) }
  end
  answers[#answers + 1] = cmsgpack.pack({ "POOLS", pools })
end
return answers
