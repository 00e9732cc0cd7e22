#!lua
--[[ claim: a request id comes to stand for a job, and for no other while that job can be known.
  Whoever comes with the same body is told which job. Whoever dies is forgotten `claim_lease_ms` after the time that his
  job may take: he may have made it, and only by the request can anybody find it.
  `instead_of` names a job whose record is gone: the id is free for a new one.
  KEYS  claim
  ARGV  now_ms rules, then for each: { digest offered_job instead_of timeout_ms }     (instead_of "" = none)
  OUT   CLAIMED job_id sealed | IDEMPOTENCY_CONFLICT                        (sealed: the job exists)                 ]]
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

local function join_claimants(claimants, offered)
  if #claimants >= CLAIMANTS.most then
    offered = "*"
  end
  for _, other in ipairs(claimants) do
    if other == offered then
      return
    end
  end
  claimants[#claimants + 1] = offered
end

for i = 3, #ARGV do
  local digest, offered, instead_of, timeout_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.claim)
  local claim = packed and cmsgpack.unpack(packed)
  if claim and claim[CLAIM.digest] ~= digest then
    answers[#answers + 1] = cmsgpack.pack({ "IDEMPOTENCY_CONFLICT" })
  else
    if not claim or (claim[CLAIM.sealed] == 1 and claim[CLAIM.job] == instead_of) then
      claim = NEW.claim
      claim[CLAIM.digest], claim[CLAIM.job] = digest, offered
    end
    if claim[CLAIM.sealed] == 0 then
      join_claimants(claim[CLAIM.claimants], offered)
      redis.call("SET", KEY.claim, cmsgpack.pack(claim), "PX", rules[RULE.claim_lease_ms] + timeout_ms)
    end
    answers[#answers + 1] = cmsgpack.pack({ "CLAIMED", claim[CLAIM.job], claim[CLAIM.sealed] == 1 })
  end
end
return answers
