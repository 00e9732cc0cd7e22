-- Of two different random nodes with room the one with the lower share of its slots taken; equal: the first. Nodes in
-- `avoid` only when no other has room. Costs the same for any number of nodes: the index is counted, never walked.
-- include: draw, node_at, less_taken
local function choose(groups, job, avoid)
  local counts, firsts, total = {}, {}, 0
  for i, room in ipairs(redis.call("HMGET", KEY.room, unpack(groups))) do
    counts[i] = tonumber(room) or 0
    total = total + counts[i]
  end
  if total == 0 then
    return nil
  end

  local function first_rank(i)
    if not firsts[i] then
      firsts[i] = redis.call("ZCOUNT", KEY.standing, "-inf", "(" .. STANDING.count * groups[i] + STANDING.available)
    end
    return firsts[i]
  end

  local taken = {}
  for _, node_id in ipairs(avoid) do
    local score = tonumber(redis.call("ZSCORE", KEY.standing, node_id))
    local offset = 0
    for i, group in ipairs(groups) do
      if score == STANDING.count * group + STANDING.available then
        taken[#taken + 1] = offset + redis.call("ZRANK", KEY.standing, node_id) - first_rank(i)
      end
      offset = offset + counts[i]
    end
  end
  if #taken == total then
    taken = {}
  end
  table.sort(taken)

  local function node_number(position)
    for _, other in ipairs(taken) do
      if position >= other then
        position = position + 1
      end
    end
    local i = 1
    while position >= counts[i] do
      position = position - counts[i]
      i = i + 1
    end
    local rank = first_rank(i) + position
    return redis.call("ZRANGE", KEY.standing, rank, rank)[1] or ""
  end

  local free = total - #taken
  local first = draw(job, free)
  local node_id, node = node_number(first), nil
  if free == 1 then
    node = node_at(node_id)
  else
    local second = draw(job, free - 1)
    node_id, node = less_taken(node_id, node_number(second >= first and second + 1 or second))
  end
  -- Every flow keeps `room` and the index. Should they ever be wrong, nobody is oversold for it.
  if node and node[NODE.standing] == STANDING.available then
    return node_id, node
  end
  return nil
end
