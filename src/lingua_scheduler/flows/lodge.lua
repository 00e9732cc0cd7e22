#!lua flags=allow-oom
--[[ lodge: another cell has a node for the attempt that it was asked for.                       RETRYING -> RESERVED
  If the job asks for just this one no more, nothing happens: whoever took that back has the slot let go.
  KEYS  groups · pairs · jobs · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt node_id epoch acks chosen { reasons } }
  OUT   LODGED | NOT_ASKED                                                                                           ]]
-- include: clock, ticket_of, leave_queue, past_of, occupy, post, tally, write_tally
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local job_id, attempt, node_id, epoch, acks, chosen, reasons = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job, answer = packed and cmsgpack.unpack(packed), { "NOT_ASKED" }
  if job and job[JOB.state] == "RETRYING" and job[JOB.cell] ~= "" and job[JOB.asked] == attempt then
    local ticket, told = ticket_of(job_id), past_of(job)[PAST.reasons]
    leave_queue(job_id, job, ticket)
    told[#told + 1], told[#told + 2] = "waited", "guest " .. job[JOB.cell]
    for _, reason in ipairs(reasons) do
      told[#told + 1] = reason
    end
    occupy(job_id, job, attempt, node_id, epoch, acks, chosen, told, ticket[TICKET.ack_ms], now)
    redis.call("HSET", KEY.jobs, job_id, cmsgpack.pack(job))
    post("reserved", job_id, attempt, node_id, epoch, "", now)
    tally("attempt.again", 1)
    answer = { "LODGED" }
  elseif job and job[JOB.cell] ~= "" and job[JOB.attempt] == attempt and job[JOB.ended_at_ms] == 0 then
    answer = { "LODGED" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
