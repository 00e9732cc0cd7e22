#!lua flags=allow-oom
--[[ unhost: a guest's attempt is over, or its home asks for it no more. Its slot is free, or in limbo; one that had no
  slot yet gets none any more. What its node did counts here, as if it were at home here.
  KEYS  nodes · standing · room · groups · pairs · jobs · guests · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id how deadline_at_ms }
        how: a cause; `done`; `back`: it was never begun; `confirmed`: its node has stopped working on it
  OUT   UNHOSTED was_here                                                 (false: it was over, or never came)        ]]
-- include: clock, node_at, end_guest, write_tally, serve
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}
-- Whoever says this does not work on it any more.
local its_own_word = { done = true, failed = true, overloaded = true, stopped = true, confirmed = true }

-- What the node of a guest is remembered by, beyond what every end of an attempt tells of it.
local function judge(node_id, guest, how)
  local node = node_at(node_id)
  if how == "done" then
    -- include: praise
    local job = NEW.job
    job[JOB.node], job[JOB.reserved_at_ms] = node_id, guest[GUEST.hosted_at_ms]
    praise(node, job, now)
  elseif how == "overloaded" or how == "undelivered" then
    -- include: rest
    rest(node_id, node, rules[how == "overloaded" and RULE.rest_ms or RULE.reconnect_grace_ms], how, now, rules)
  end
end

for i = 3, #ARGV do
  local job_id, attempt, node_id, how, deadline = unpack(cmsgpack.unpack(ARGV[i]))
  local name = job_id .. ":" .. attempt
  local packed = redis.call("HGET", KEY.guests, name)
  local guest = packed and cmsgpack.unpack(packed)
  local was_here = guest and guest[GUEST.over] == ""
  if was_here then
    judge(guest[GUEST.node], guest, how)
    end_guest(name, guest, CAUSE.named[how] or { name = how }, now, rules)
  elseif not guest and now < deadline then
    guest = NEW.guest
    guest[GUEST.deadline_at_ms], guest[GUEST.over] = deadline, how
    redis.call("HSET", KEY.guests, name, cmsgpack.pack(guest))
    redis.call("ZADD", KEY.due, DUE.forget + deadline, "g:" .. name)
  end
  if not was_here and its_own_word[how] then
    -- include: confirm_stop
    confirm_stop(job_id, attempt, node_id, nil, now, rules)
  end
  answers[#answers + 1] = cmsgpack.pack({ "UNHOSTED", was_here or false })
  serve(now)
end
write_tally()
return answers
