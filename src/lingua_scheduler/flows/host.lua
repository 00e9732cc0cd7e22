#!lua flags=allow-oom
--[[ host: a slot of a node of this cell is taken for an attempt of a job that is at home in another. Whoever asks again
  for the same attempt is told the same, and an attempt that was refused or is over gets no slot any more.
  A guest comes after those who wait here, and falls back to no other language: for that all cells would have to be
  asked.
  KEYS  nodes · standing · room · groups · pairs · guests · leases · due
  ARGV  now_ms rules, then for each: { job_id attempt deadline_at_ms seed { had } ticket }
  OUT   HOSTED node epoch acks chosen { reasons } | TURNED_AWAY                                                      ]]
-- include: clock, groups_for, find_node, take_slot
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, deadline, seed, had, ticket = unpack(cmsgpack.unpack(ARGV[i]))
  local name = job_id .. ":" .. attempt
  local packed = redis.call("HGET", KEY.guests, name)
  local guest, answer = packed and cmsgpack.unpack(packed), { "TURNED_AWAY" }
  if not guest and now < deadline then
    local job = NEW.job
    job[JOB.seed], ticket[TICKET.fallback] = seed, ""
    local node_id, node, choice, reasons = find_node(groups_for(ticket, 0), job, ticket, had, {}, now)
    guest = NEW.guest
    guest[GUEST.deadline_at_ms] = deadline
    if node_id and take_slot(node_id, node, name, now) then
      guest[GUEST.node], guest[GUEST.epoch], guest[GUEST.acks] = node_id, node[NODE.epoch], node[NODE.acks]
      guest[GUEST.chosen], guest[GUEST.reasons], guest[GUEST.hosted_at_ms] = choice, reasons, now
      -- Its home lets it go by then; this is for a home that is never heard of again.
      redis.call("ZADD", KEY.due, deadline + rules[RULE.relay_lease_ms], "g:" .. name)
    else
      guest[GUEST.over] = "refused"
      redis.call("ZADD", KEY.due, DUE.forget + deadline, "g:" .. name)
    end
    redis.call("HSET", KEY.guests, name, cmsgpack.pack(guest))
  end
  if guest and guest[GUEST.over] == "" then
    answer = { "HOSTED", guest[GUEST.node], guest[GUEST.epoch], guest[GUEST.acks] }
    answer[5], answer[6] = guest[GUEST.chosen], guest[GUEST.reasons]
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
