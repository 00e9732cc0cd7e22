-- Why no node of a job's pool could be chosen: sizes of kept sets, each node counted once under its first reason. In
-- the order of `Breakdown`: pool full stale not_ready draining resting marked excluded no_service not_permitted.
-- include: pair_for, groups_of, fitting_groups
local function breakdown(ticket)
  local wishes, numbers = ticket[TICKET.wishes][1], { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
  -- In the order in which they are looked for: mostly the first of them are all.
  local standings = {
    { STANDING.full, 2 },
    { STANDING.suspect_full, 2 },
    { STANDING.stale, 3 },
    { STANDING.lost, 3 },
    { STANDING.not_ready, 4 },
    { STANDING.draining, 5 },
    { STANDING.resting, 6 },
  }
  local place_of, marked, excluded, no_service, not_permitted = {}, 7, 8, 9, 10
  for _, known in ipairs(standings) do
    place_of[known[1]] = known[2]
  end

  -- Which reason holds for a whole group: what fits when it is waived does not fit otherwise.
  local reasons, fitting, permitted, pair = {}, LACK.private + LACK.marked, LACK.marked, pair_for(ticket)
  local pool = groups_of(pair, 0)
  for _, group in ipairs(pool) do
    reasons[group] = no_service
  end
  for _, step in ipairs({ { fitting, not_permitted }, { permitted, marked }, { 0, false } }) do
    for _, group in ipairs(fitting_groups(pair, ticket, step[1])) do
      reasons[group] = step[2]
    end
  end

  local function count(group, standing, by)
    local place = reasons[group] or place_of[standing]
    if place then
      numbers[place] = numbers[place] + by
    end
  end
  for _, group in ipairs(pool) do
    local first = STANDING.count * group
    local left = redis.call("ZCOUNT", KEY.standing, first, first + STANDING.last)
    numbers[1] = numbers[1] + left
    if reasons[group] then
      count(group, nil, left)
    else
      for _, known in ipairs(standings) do
        local number = left > 0 and redis.call("ZCOUNT", KEY.standing, first + known[1], first + known[1]) or 0
        count(group, known[1], number)
        left = left - number
      end
    end
  end
  for _, node_id in ipairs(wishes and wishes[WISHES.excluded] or {}) do
    local score = tonumber(redis.call("ZSCORE", KEY.standing, node_id))
    local group = score and math.floor(score / STANDING.count)
    if group and reasons[group] ~= nil then
      count(group, score % STANDING.count, -1)
      numbers[excluded] = numbers[excluded] + 1
    end
  end
  -- The node that it names may have it, even where others of its like may not.
  local named = wishes and redis.call("ZSCORE", KEY.standing, wishes[WISHES.named])
  local its_group = named and math.floor(named / STANDING.count)
  if named and reasons[its_group] == not_permitted then
    count(its_group, named % STANDING.count, -1)
    reasons[its_group] = marked
    for _, group in ipairs(fitting_groups(pair, ticket, LACK.private)) do
      reasons[group] = group ~= its_group and reasons[group]
    end
    count(its_group, named % STANDING.count, 1)
  end
  return numbers
end
