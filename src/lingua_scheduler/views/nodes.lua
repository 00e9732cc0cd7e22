#!lua flags=no-writes
--[[ nodes: a page of the cell's nodes with their ledgers, each page one instant. A node that is there from the first
  page to the last is on one of them at least once.
  KEYS  nodes · standing · jobs · guests · leases · limbo · due
  ARGV  now_ms rules, then for each: { cursor count }                       (cursor "0" = from the start)
  OUT   NODES now_ms cursor { node_id record score { lease fenced_at_ms due_at_ms { state attempt node epoch } } }
        (fenced_at_ms 0 = it is not; due_at_ms -1 = never; the job's state and so on, { } = there is no job; of a
         guest, whose job is in another cell, RESERVED)                                                             ]]
-- include: clock, leases_of
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local page = redis.call("HSCAN", KEY.nodes, cursor, "COUNT", count)
  local found = {}
  for n = 1, #page[2], 2 do
    local node_id = page[2][n]
    local leases = {}
    for k, entry in ipairs(leases_of(node_id)) do
      local packed = redis.call("HGET", KEY.jobs, entry[2])
      local job = packed and cmsgpack.unpack(packed)
      local current = job and { job[JOB.state], job[JOB.attempt], job[JOB.node], job[JOB.epoch] } or {}
      local guest = not job and redis.call("HGET", KEY.guests, entry[2] .. ":" .. entry[3])
      guest = guest and cmsgpack.unpack(guest)
      if guest and guest[GUEST.over] == "" then
        current = { "RESERVED", entry[3], guest[GUEST.node], guest[GUEST.epoch] }
      end
      local fenced_at = tonumber(redis.call("HGET", KEY.limbo, entry[1]) or 0)
      local watched = guest and "g:" .. entry[2] .. ":" .. entry[3] or "j:" .. entry[2]
      local due = redis.call("ZSCORE", KEY.due, fenced_at > 0 and "l:" .. entry[1] or watched)
      leases[k] = { entry[1], fenced_at, tonumber(due or -1), current }
    end
    local score = tonumber(redis.call("ZSCORE", KEY.standing, node_id) or -1)
    found[#found + 1] = { node_id, cmsgpack.unpack(page[2][n + 1]), score, leases }
  end
  answers[#answers + 1] = cmsgpack.pack({ "NODES", now, page[1], found })
end
return answers
