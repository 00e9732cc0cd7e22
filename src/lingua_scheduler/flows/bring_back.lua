#!lua flags=allow-oom
--[[ bring_back: the cell that was asked for a node has none for this attempt, or the node that it had there is lost.
  The job asks no more, or moves on. One that hopes for a node elsewhere since this attempt, and that nobody will ask
  for any more, hopes no more.                                           any live state -> RETRYING | FAILED | EXPIRED
  KEYS  nodes · standing · room · groups · pairs · jobs · leases · limbo · queue · due · outbox · counts
  ARGV  now_ms rules, then for each: { job_id attempt early late asks_on } (the cause, if the node had not accepted, and
                                                                           if it had; "" = nobody had room. asks_on:
                                                                           a third cell will be asked)
  OUT   BROUGHT_BACK state | STAYS                                        (stays: it has gone on already)            ]]
-- include: clock, hopes, look_home, move_on, write_tally
local now, rules, answers = clock(ARGV[1]), cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local job_id, attempt, early, late, asks_on = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("HGET", KEY.jobs, job_id)
  local job, answer = packed and cmsgpack.unpack(packed), { "STAYS" }
  if job and job[JOB.cell] ~= "" and job[JOB.ended_at_ms] == 0 then
    if job[JOB.state] == "RETRYING" and job[JOB.asked] == attempt then
      job[JOB.cell] = ""
      look_home(job_id, job, asks_on and now + rules[RULE.elsewhere_ms] or now, now)
      answer = { "BROUGHT_BACK", job[JOB.state] }
    elseif job[JOB.state] ~= "RETRYING" and job[JOB.attempt] == attempt and late ~= "" then
      local cause = CAUSE.named[SOURCES.ACCEPTED[job[JOB.state]] and early or late]
      move_on(job_id, job, cause, cause.name, now, rules)
      answer = { "BROUGHT_BACK", job[JOB.state] }
    end
  elseif job and late == "" and math.max(job[JOB.attempt], job[JOB.asked]) == attempt and hopes(job_id, job) then
    look_home(job_id, job, now, now)
    answer = { "BROUGHT_BACK", job[JOB.state] }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
write_tally()
return answers
