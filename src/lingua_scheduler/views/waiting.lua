#!lua flags=no-writes
--[[ waiting: the place of a job that waits, how many are served before it and with it, and how fast.
  KEYS  nodes · standing · groups · pairs · jobs · queue
  ARGV  now_ms rules, then for each: { job_id }
  OUT   PLACE place until_ms ahead jobs_per_ms | PLACED state | UNKNOWN_JOB  (jobs_per_ms: as text, "0" = not known)  ]]
-- include: ticket_of, groups_for, waiting_place
local answers, most = {}, 64

-- How many jobs some nodes end in a millisecond, together.
local function rate_of(ids)
  local rate = 0
  for _, packed in ipairs(#ids > 0 and redis.call("HMGET", KEY.nodes, unpack(ids)) or {}) do
    local node = packed and cmsgpack.unpack(packed)
    if node and node[NODE.typical_ms] > 0 then
      rate = rate + node[NODE.max] / node[NODE.typical_ms]
    end
  end
  return rate
end

-- How many stand in a line up to this job.
local function ahead_in(line, at)
  return redis.call("ZLEXCOUNT", KEY.queue, "[" .. line .. ":", "[" .. line .. at)
end

-- Who waits for one node alone is served by it, after those who name it and those of its group. Else all nodes of its
-- groups serve it together, after those of its pair or those in the longest of their lines, whichever are more; of a
-- large group the first nodes are looked at, and the rest are taken to be like them.
local function outlook(job_id, job, ticket, place)
  local at, wishes = string.format(":%015d:%s", job[JOB.deadline_at_ms], job_id), ticket[TICKET.wishes][1]
  if wishes and wishes[WISHES.strict] == 1 then
    local named = wishes[WISHES.named]
    local group = math.floor((redis.call("ZSCORE", KEY.standing, named) or 0) / STANDING.count)
    return ahead_in("n" .. named, at) + ahead_in("g" .. group, at) + ahead_in("x" .. group, at), rate_of({ named })
  end
  local ahead, rate = place, 0
  for _, group in ipairs(groups_for(ticket, wishes and wishes[WISHES.named] ~= "" and LACK.private or 0)) do
    local first = STANDING.count * group
    local last = first + STANDING.suspect_full
    local ids = redis.call("ZRANGEBYSCORE", KEY.standing, first, last, "LIMIT", 0, most)
    local all = #ids < most and #ids or redis.call("ZCOUNT", KEY.standing, first, last)
    ahead = math.max(ahead, ahead_in("g" .. group, at) + ahead_in("x" .. group, at))
    rate = rate + (#ids > 0 and rate_of(ids) * all / #ids or 0)
  end
  return ahead, rate
end

for i = 3, #ARGV do
  local job_id = cmsgpack.unpack(ARGV[i])[1]
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local answer = { "UNKNOWN_JOB" }
  if packed then
    local job, ticket = cmsgpack.unpack(packed), ticket_of(job_id)
    answer = { "PLACED", job[JOB.state] }
    if job[JOB.state] == "WAITING" or job[JOB.state] == "RETRYING" then
      local place = waiting_place(job_id, job, ticket)
      local until_ms = job[JOB.state] == "WAITING" and place[3] or job[JOB.deadline_at_ms]
      local ahead, rate = outlook(job_id, job, ticket, place[2])
      answer = { "PLACE", place[2], until_ms, ahead, string.format("%.9f", rate) }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
