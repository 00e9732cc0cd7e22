#!lua flags=allow-oom
--[[ seal: the job that a request id stands for exists; the id keeps standing for it as long as its record can live:
  by the id that it has in the cell to which it went.
  KEYS  claim
  ARGV  now_ms rules, then for each: { digest job_id ttl_ms found_id }
  OUT   SEALED | IDEMPOTENCY_CONFLICT                (too late: the lease is over, and the id stands for another job) ]]
local answers = {}

for i = 3, #ARGV do
  local digest, job_id, ttl_ms, found_id = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.claim)
  local claim = packed and cmsgpack.unpack(packed)
  if claim and claim[CLAIM.job] ~= job_id and claim[CLAIM.job] ~= found_id then
    answers[#answers + 1] = cmsgpack.pack({ "IDEMPOTENCY_CONFLICT" })
  else
    if not claim or claim[CLAIM.sealed] == 0 then
      claim = NEW.claim
      claim[CLAIM.digest], claim[CLAIM.job], claim[CLAIM.sealed] = digest, found_id, 1
      redis.call("SET", KEY.claim, cmsgpack.pack(claim), "PX", ttl_ms)
    end
    answers[#answers + 1] = cmsgpack.pack({ "SEALED" })
  end
end
return answers
