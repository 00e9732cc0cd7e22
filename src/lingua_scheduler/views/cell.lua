#!lua flags=no-writes
--[[ cell: everything in a cell at one instant. For tests and small cells: the answer is as large as the cell.
  KEYS  nodes · profiles · standing · room · groups · signatures · pairs · ends · intents · departed · jobs · guests ·
        leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { }
  OUT   now and each key's content as lists: { field value } of a hash, { member score } of a zset                 ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}

local function entries(flat, packed)
  local found = {}
  for i = 1, #flat, 2 do
    found[#found + 1] = { flat[i], packed and cmsgpack.unpack(flat[i + 1]) or flat[i + 1] }
  end
  return found
end

local function zset(flat)
  for i = 2, #flat, 2 do
    flat[i] = tonumber(flat[i])
  end
  return entries(flat, false)
end

-- A job's record, its ticket and its texts lie side by side in one hash.
local function jobs()
  local records, tickets, ways, texts = {}, {}, {}, {}
  for _, entry in ipairs(entries(redis.call("HGETALL", KEY.jobs), false)) do
    local job_id, part = string.match(entry[1], "^([^:]+):?(.*)$")
    if part == "" then
      records[#records + 1] = { job_id, cmsgpack.unpack(entry[2]) }
    elseif part == "ticket" then
      tickets[#tickets + 1] = { job_id, cmsgpack.unpack(entry[2]) }
    elseif part == "way" then
      ways[#ways + 1] = { job_id, cmsgpack.unpack(entry[2]) }
    else
      texts[#texts + 1] = entry
    end
  end
  return records, tickets, ways, texts
end

for _ = 3, #ARGV do
  local records, tickets, ways, texts = jobs()
  local outbox = zset(redis.call("ZRANGE", KEY.outbox, 0, -1, "WITHSCORES"))
  for _, entry in ipairs(outbox) do
    entry[1] = cmsgpack.unpack(entry[1])
  end
  answers[#answers + 1] = cmsgpack.pack({
    now,
    entries(redis.call("HGETALL", KEY.nodes), true),
    entries(redis.call("HGETALL", KEY.profiles), true),
    zset(redis.call("ZRANGE", KEY.standing, 0, -1, "WITHSCORES")),
    entries(redis.call("HGETALL", KEY.room), false),
    entries(redis.call("HGETALL", KEY.groups), true),
    entries(redis.call("HGETALL", KEY.signatures), false),
    entries(redis.call("HGETALL", KEY.pairs), true),
    entries(redis.call("HGETALL", KEY.ends), false),
    entries(redis.call("HGETALL", KEY.intents), true),
    entries(redis.call("HGETALL", KEY.departed), false),
    records,
    tickets,
    ways,
    texts,
    entries(redis.call("HGETALL", KEY.guests), true),
    zset(redis.call("ZRANGE", KEY.leases, 0, -1, "WITHSCORES")),
    entries(redis.call("HGETALL", KEY.limbo), false),
    redis.call("ZRANGE", KEY.queue, 0, -1),
    zset(redis.call("ZRANGE", KEY.due, 0, -1, "WITHSCORES")),
    outbox,
    entries(redis.call("HGETALL", KEY.counts), false),
  })
end
return answers
