#!lua flags=allow-oom
--[[ assign_home: a node has one home, the cell in which it registers. Whoever asks again is told the same one.
  A new node goes where most of its pairs are served already, if there is room; else where there is room, the fullest
  first. If there is none it goes to a full cell all the same: the place of a node that is gone may be free there. Only
  who was turned away there, too, gets a new cell. Each time the home gets a stamp that is greater than every other:
  whoever gives it up names the one that he saw.
  KEYS  directory · cells · homes · routes
  ARGV  now_ms rules, then for each: { node_id { pairs } first stem full stamp }
        (first: how the first cell is named; stem: how the others begin; full: the cell that had no room, "" = none;
         stamp: with which the node was sent there)
  OUT   HOME cell stamp is_new                                          (is_new: the directory knew no home of it)  ]]
-- include: clock, next_stamp
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

local function wanted_by(pairs_served)
  local wanted = {}
  for _, packed in ipairs(#pairs_served > 0 and redis.call("HMGET", KEY.routes, unpack(pairs_served)) or {}) do
    for _, cell in ipairs(packed and cmsgpack.unpack(packed) or {}) do
      wanted[cell] = (wanted[cell] or 0) + 1
    end
  end
  return wanted
end

-- Where more of its pairs are served; else the fuller one; else the first by name.
local function is_better(one, other)
  if one.serves ~= other.serves then
    return one.serves > other.serves
  elseif one.nodes ~= other.nodes then
    return one.nodes > other.nodes
  end
  return one.cell < other.cell
end

local function best_for(pairs_served, but, most)
  local wanted, listed, best = wanted_by(pairs_served), redis.call("HGETALL", KEY.cells), nil
  for n = 1, #listed, 2 do
    local one = { cell = listed[n], nodes = tonumber(listed[n + 1]), serves = wanted[listed[n]] or 0 }
    if one.nodes < most and one.cell ~= but and (not best or is_better(one, best)) then
      best = one
    end
  end
  return best and best.cell
end

local function new_cell(first, stem)
  local cell, number = first, 0
  while redis.call("HEXISTS", KEY.cells, cell) == 1 do
    cell, number = stem .. number, number + 1
  end
  redis.call("HINCRBY", KEY.directory, "version", 1)
  return cell
end

for i = 3, #ARGV do
  local node_id, pairs_served, first, stem, full, stamp = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.homes, node_id)
  local home, is_new = packed and cmsgpack.unpack(packed), not packed
  local is_full, is_last = home and home[HOME.cell] == full, home and home[HOME.stamp] == stamp
  if is_new or is_full and is_last then
    local cell = best_for(pairs_served, full, rules[RULE.cell_capacity])
    if not cell and full == "" then
      cell = best_for(pairs_served, full, math.huge)
    end
    cell = cell or new_cell(first, stem)
    if home then
      redis.call("HINCRBY", KEY.cells, home[HOME.cell], -1)
    end
    redis.call("HINCRBY", KEY.cells, cell, 1)
    home = NEW.home
    home[HOME.cell] = cell
  end
  -- Whoever was sent to the full cell last moves the home. The others wait for that: a new stamp would hinder him.
  if not is_full or is_last then
    home[HOME.stamp] = next_stamp(now)
    redis.call("HSET", KEY.homes, node_id, cmsgpack.pack(home))
  end
  answers[#answers + 1] = cmsgpack.pack({ "HOME", home[HOME.cell], home[HOME.stamp], is_new })
end
return answers
