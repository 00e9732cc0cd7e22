#!lua flags=no-writes
--[[ pairing: the node that a code stands for.
  KEYS  pairing
  ARGV  now_ms rules, then for each: { }
  OUT   PAIRING cell node_id | INVALID_PAIRING_CODE                                                                 ]]
local answers = {}

for _ = 3, #ARGV do
  local known = redis.call("GET", KEY.pairing)
  local answer = { "INVALID_PAIRING_CODE" }
  if known then
    answer = { "PAIRING", unpack(cmsgpack.unpack(known)) }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
