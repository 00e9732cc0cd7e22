#!lua flags=no-writes
--[[ jobs: a stretch of one kind of a cell's jobs, backwards along the due-list, and those of them that fit. There jobs
  under way stand by when somebody looks at them next, and ended ones by when something of them is forgotten, which is
  for each kind so long after its time: so each kind is in the order of its time, and needs no index of its own. (Who
  lowers one of these times does not see at once what was to be kept for longer.)
  KEYS  jobs · due
  ARGV  now_ms rules, then for each: { kind from_ms from text_ttl_ms count limit { what text } }
        (kind: under_way; ended: its text is there; released; erased: neither; from: the entry, of this cell or another,
         behind which it begins, from_ms -1 = at the newest; of the due-list `count` entries are looked at, or until
         `limit` are found, however many stand at one moment)
  OUT   JOBS { at_ms job_id record ticket } last_ms last
        (at_ms: when it was, or is looked at; the last: the entry to which this went, -1 and "" = to the end)        ]]
-- include: clock, ticket_of
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

local fits = {}

function fits.job(text, job_id)
  return string.sub(job_id, 1, #text) == text
end

function fits.state(text, _, job)
  return job[JOB.state] == text
end

function fits.node(text, _, job)
  local had = job[JOB.node] == text
  for _, past in ipairs(#job[JOB.past] > 0 and job[JOB.past][PAST.attempts] or {}) do
    had = had or past[PAST_ATTEMPT.node] == text
  end
  return had
end

function fits.session(text, job_id)
  return ticket_of(job_id)[TICKET.session] == text
end

function fits.pair(text, job_id)
  return ticket_of(job_id)[TICKET.pair] == text
end

function fits.name(text, job_id, job)
  return fits.job(text, job_id) or fits.node(text, job_id, job) or fits.session(text, job_id)
end

local function kind_of(job, at)
  if job[JOB.ended_at_ms] == 0 then
    return "under_way"
  end
  if #job[JOB.past] > 0 and job[JOB.past][PAST.released_at_ms] > 0 then
    return "released"
  end
  return at - DUE.forget - job[JOB.ended_at_ms] < rules[RULE.job_record_ttl_ms] and "ended" or "erased"
end

-- A job, if it is of this kind and all that is wanted is so.
local function wanted_job(job_id, kind, at, wanted)
  for _, wish in ipairs(wanted) do
    if wish[1] == "job" and not fits.job(wish[2], job_id) then
      return nil
    end
  end
  local job = cmsgpack.unpack(redis.call("HGET", KEY.jobs, job_id))
  if kind_of(job, at) ~= kind then
    return nil
  end
  for _, wish in ipairs(wanted) do
    if not fits[wish[1]](wish[2], job_id, job) then
      return nil
    end
  end
  return job
end

-- As the due-list has the entries of one moment: byte by byte, while `<` goes by the language of the server.
local function is_below(member, other)
  for n = 1, math.min(#member, #other) do
    local mine, theirs = string.byte(member, n), string.byte(other, n)
    if mine ~= theirs then
      return mine < theirs
    end
  end
  return #member < #other
end

-- How many entries stand before the first one behind this place. Many may be of its moment: it is found by halves.
local function rank_behind(at, member)
  local low = redis.call("ZCOUNT", KEY.due, string.format("(%.0f", at), "+inf")
  local high = low + redis.call("ZCOUNT", KEY.due, at, at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_below(redis.call("ZREVRANGE", KEY.due, middle, middle)[1], member) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

for i = 3, #ARGV do
  local kind, from, member, text_ttl_ms, count, limit, wanted = unpack(cmsgpack.unpack(ARGV[i]))
  local later = { ended = text_ttl_ms, released = rules[RULE.released_ttl_ms], erased = rules[RULE.job_record_ttl_ms] }
  local bottom, base, above = -math.huge, 0, DUE.forget
  if kind ~= "under_way" then
    bottom, base = DUE.forget, DUE.forget + later[kind]
    above = string.format("(%.0f", base + now)
  end
  local rank = from < 0 and redis.call("ZCOUNT", KEY.due, above, "+inf") or rank_behind(base + from, member)
  local page = redis.call("ZREVRANGE", KEY.due, rank, rank + count - 1, "WITHSCORES")
  local found, last = {}, { -1, "" }
  for n = 1, #page, 2 do
    local entry, at = page[n], tonumber(page[n + 1])
    if at < bottom then
      break
    end
    if string.sub(entry, 1, 2) == "j:" then
      local job_id = string.sub(entry, 3)
      local job = wanted_job(job_id, kind, at, wanted)
      if job then
        found[#found + 1] = { at - base, job_id, job, ticket_of(job_id) }
      end
    end
    if n > 2 * (count - 1) or #found >= limit then
      last = { at - base, entry }
      break
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "JOBS", found, last[1], last[2] })
end
return answers
