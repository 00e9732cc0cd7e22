#!lua flags=allow-oom
--[[ disclaim: the job was not made. The last of those who wanted to make it frees the request id: a refusal is not
  remembered, but while another is about to make the same job the id goes on standing for it.
  KEYS  claim
  ARGV  now_ms rules, then for each: { job_id offered_job }                 (what it stands for, what was offered)
  OUT   FREED freed                                                         (false: somebody else holds it)          ]]
local answers = {}

local function others_than(offered, claimants)
  local others = {}
  for _, other in ipairs(claimants) do
    if other ~= offered then
      others[#others + 1] = other
    end
  end
  return others
end

for i = 3, #ARGV do
  local job_id, offered = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.claim)
  local claim = packed and cmsgpack.unpack(packed)
  local freed = not claim
  if claim and claim[CLAIM.job] == job_id and claim[CLAIM.sealed] == 0 then
    claim[CLAIM.claimants] = others_than(offered, claim[CLAIM.claimants])
    freed = #claim[CLAIM.claimants] == 0
    if freed then
      redis.call("DEL", KEY.claim)
    else
      redis.call("SET", KEY.claim, cmsgpack.pack(claim), "KEEPTTL")
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "FREED", freed })
end
return answers
