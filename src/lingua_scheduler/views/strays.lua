#!lua flags=no-writes
--[[ strays: a page of the ledger, of the jobs or of the groups, and what in it has lost its other half, or is not what
  its set says. Each page is one instant.
  KEYS  nodes · standing · room · groups · jobs · leases · due
  ARGV  now_ms rules, then for each: { key cursor count }          (key "leases", "jobs" or "groups"; cursor "0": start)
  OUT   STRAYS cursor { invariant subject detail }                                                                 ]]
local answers = {}

local function of_leases(page, found)
  for n = 1, #page, 2 do
    local lease = page[n]
    if redis.call("HEXISTS", KEY.nodes, string.match(lease, "^[^:]+")) == 0 then
      found[#found + 1] = { "S2", lease, "its node is not registered" }
    end
  end
end

local function of_jobs(page, found)
  for n = 1, #page, 2 do
    local job_id = page[n]
    if not string.find(job_id, ":", 1, true) then
      local job = cmsgpack.unpack(page[n + 1])
      local state, lease = job[JOB.state], job[JOB.node] .. ":" .. job_id .. ":" .. job[JOB.attempt]
      local live = job[JOB.ended_at_ms] == 0 and state ~= "RETRYING" and state ~= "WAITING"
      if live and job[JOB.cell] == "" and not redis.call("ZSCORE", KEY.leases, lease) then
        found[#found + 1] = { "S2", job_id, "it is " .. state .. " on " .. job[JOB.node] .. " without a lease" }
      end
      if not redis.call("ZSCORE", KEY.due, "j:" .. job_id) then
        found[#found + 1] = { "S16", job_id, "nobody will ever look at it again" }
      end
    end
  end
end

local function of_groups(page, found)
  for n = 1, #page, 2 do
    local group = tonumber(page[n])
    local first = STANDING.count * group
    local available, suspect = first + STANDING.available, first + STANDING.suspect
    local room = tonumber(redis.call("HGET", KEY.room, group) or 0)
    local free = redis.call("ZCOUNT", KEY.standing, available, available)
    free = free + ROOM.suspect * redis.call("ZCOUNT", KEY.standing, suspect, suspect)
    if room ~= free then
      local detail = "room is " .. room .. ", and not " .. free
      found[#found + 1] = { "S3", "group " .. group, detail }
    end
  end
end

for i = 3, #ARGV do
  local key, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local page, found = nil, {}
  if key == "leases" then
    page = redis.call("ZSCAN", KEY.leases, cursor, "COUNT", count)
    of_leases(page[2], found)
  elseif key == "jobs" then
    page = redis.call("HSCAN", KEY.jobs, cursor, "COUNT", count)
    of_jobs(page[2], found)
  else
    page = redis.call("HSCAN", KEY.groups, cursor, "COUNT", count)
    of_groups(page[2], found)
  end
  answers[#answers + 1] = cmsgpack.pack({ "STRAYS", page[1], found })
end
return answers
