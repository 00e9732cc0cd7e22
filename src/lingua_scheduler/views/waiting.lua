#!lua flags=no-writes
--[[ waiting: the place of a job that waits, and how fast those whom it waits for get through their work.
  KEYS  nodes · standing · groups · pairs · jobs · queue
  ARGV  now_ms rules, then for each: { job_id }
  OUT   PLACE place until_ms jobs_per_ms | PLACED state | UNKNOWN_JOB       (jobs_per_ms: as text, "0" = not known)   ]]
-- include: ticket_of, groups_for, waiting_place
local answers, most = {}, 64

-- Of the first nodes of each group, how many jobs they end in a millisecond, together; the rest are taken to be like
-- them.
local function rate_of(groups)
  local rate = 0
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    local last = first + STANDING.suspect_full
    local ids = redis.call("ZRANGEBYSCORE", KEY.standing, first, last, "LIMIT", 0, most)
    local all = #ids < most and #ids or redis.call("ZCOUNT", KEY.standing, first, last)
    for _, packed in ipairs(#ids > 0 and redis.call("HMGET", KEY.nodes, unpack(ids)) or {}) do
      local node = cmsgpack.unpack(packed)
      if node[NODE.typical_ms] > 0 then
        rate = rate + node[NODE.max] / node[NODE.typical_ms] * all / #ids
      end
    end
  end
  return string.format("%.9f", rate)
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
      local wishes = ticket[TICKET.wishes][1]
      local waived = wishes and wishes[WISHES.named] ~= "" and LACK.private or 0
      answer = { "PLACE", place[2], until_ms, rate_of(groups_for(ticket, waived)) }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
