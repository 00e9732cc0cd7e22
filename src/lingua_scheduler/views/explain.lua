#!lua flags=no-writes
--[[ explain: a job as it is known; or of a page of nodes whether each could take it now, or the first reason why not.
  KEYS  nodes · standing · room · groups · pairs · jobs
  ARGV  now_ms rules, then for each: { job_id hop }                  (hop: how often it went on before it came here) or
                                     { "" 0 cursor count ticket job }     (cursor "" = from the start; job: its record,
                                                                           or nothing of one that is only thought of)
  OUT   KNOWN record ticket | GONE_ON cell hop | UNKNOWN_JOB
        EXPLAINED cursor { node_id reason seen record } live        (cursor "" = the last page; reason "" = it could
                                                                     take it; live: somebody alive serves its pair) ]]
-- include: clock, ticket_of, gone_on, against, had_by, groups_for, is_panic, is_doubtful, is_live
local now, answers = clock(ARGV[1]), {}

-- The names of the next nodes, in order, so that no page repeats or misses a node that stays, whoever comes and goes
-- in between; and where the page after them begins.
local function page_of(cursor, count)
  local names, page = {}, {}
  for _, node_id in ipairs(redis.call("HKEYS", KEY.nodes)) do
    names[#names + 1] = node_id > cursor and node_id or nil
  end
  table.sort(names)
  for n = 1, math.min(count, #names) do
    page[n] = names[n]
  end
  return page, #names > count and page[count] or ""
end

-- The nodes that had the job or have it, and those that have seen its utterance.
local function seen_by(job, wishes)
  local seen = { [job and job[JOB.node] or ""] = true }
  for _, attempt in ipairs(job and job[JOB.past][PAST.attempts] or {}) do
    seen[attempt[PAST_ATTEMPT.node]] = true
  end
  for _, node_id in ipairs(wishes and wishes[WISHES.seen] or {}) do
    seen[node_id] = true
  end
  return seen
end

local function verdicts_on(page, ticket, job)
  local wishes, excluded, verdicts = ticket[TICKET.wishes][1], {}, {}
  for _, node_id in ipairs(wishes and wishes[WISHES.excluded] or {}) do
    excluded[node_id] = true
  end
  local named, strict = wishes and wishes[WISHES.named], wishes and wishes[WISHES.strict] == 1
  local seen, reason_against, barred = seen_by(job, wishes), against(ticket), {}
  local had = job and not strict and had_by(job) or {}
  for _, node_id in ipairs(#had > 0 and not is_panic(groups_for(ticket, 0)) and had or {}) do
    barred[node_id] = true
  end
  for n, packed in ipairs(#page > 0 and redis.call("HMGET", KEY.nodes, unpack(page)) or {}) do
    local node_id, node = page[n], cmsgpack.unpack(packed)
    local standing, reason = node[NODE.standing], excluded[node_id] and "excluded"
    reason = reason or reason_against(node[NODE.group], node_id == named)
    reason = reason or standing > STANDING.suspect and STANDING.names[standing + 1]
    reason = reason or barred[node_id] and is_doubtful(node, now) and "had"
    reason = reason or strict and node_id ~= named and "not_named"
    verdicts[n] = { node_id, reason or "", seen[node_id] == true, node }
  end
  return verdicts
end

for i = 3, #ARGV do
  local job_id, hop, cursor, count, ticket, job = unpack(cmsgpack.unpack(ARGV[i]))
  local answer
  if ticket then
    local page, next_cursor = page_of(cursor, count)
    answer = { "EXPLAINED", next_cursor, verdicts_on(page, ticket, job), is_live(ticket[TICKET.pair]) }
  else
    local packed = redis.call("HGET", KEY.jobs, job_id)
    answer = packed and { "KNOWN", cmsgpack.unpack(packed), ticket_of(job_id) }
      or gone_on(job_id, hop)
      or { "UNKNOWN_JOB" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
