-- Choose among the nodes in some rows of the index, so many in each, without those to skip. A row is where the score is
-- STANDING.count times its number. Costs the same for any number of nodes: the index is counted, never walked. Gives
-- the node and how many there were to choose from.
-- include: draw, node_at, less_taken
local function pick_from(rows, counts, job, policy, banned, avoid)
  local firsts, total = {}, 0
  for _, count in ipairs(counts) do
    total = total + count
  end

  local function first_rank(i)
    if not firsts[i] then
      firsts[i] = redis.call("ZCOUNT", KEY.standing, "-inf", "(" .. STANDING.count * rows[i])
    end
    return firsts[i]
  end

  -- Where the nodes to skip stand among the candidates, if they do, in order.
  local taken = {}
  if #banned + #avoid > 0 and total > 0 then
    local known = {}
    for _, node_ids in ipairs({ banned, avoid }) do
      for _, node_id in ipairs(node_ids) do
        local score = not known[node_id] and tonumber(redis.call("ZSCORE", KEY.standing, node_id))
        local offset = 0
        for i, row in ipairs(rows) do
          if score == STANDING.count * row then
            taken[#taken + 1] = offset + redis.call("ZRANK", KEY.standing, node_id) - first_rank(i)
          end
          offset = offset + counts[i]
        end
        known[node_id] = true
      end
    end
    table.sort(taken)
  end
  local free = total - #taken
  if free == 0 then
    return nil
  end

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

  local node_id, node
  if policy == POLICY.least_loaded then
    -- include: least_taken
    node_id, node = least_taken(job, free, node_number)
  else
    local first = draw(job, free)
    node_id = node_number(first)
    if free == 1 then
      node = node_at(node_id)
    else
      local second = draw(job, free - 1)
      node_id, node = less_taken(node_id, node_number(second >= first and second + 1 or second))
    end
  end
  -- Every flow keeps `room` and the index. Should they ever be wrong, nobody is oversold for it.
  if node and node[NODE.standing] <= STANDING.suspect then
    return node_id, node, free
  end
end
