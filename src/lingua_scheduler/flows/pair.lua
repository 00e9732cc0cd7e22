#!lua
--[[ pair: a code comes to stand for a node, for a while. One that stands for another node is not taken from it.
  KEYS  pairing
  ARGV  now_ms rules, then for each: { cell node_id }
  OUT   PAIRED | TAKEN                                                                                              ]]
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local known, answer = redis.call("GET", KEY.pairing), "TAKEN"
  if not known or known == ARGV[i] then
    redis.call("SET", KEY.pairing, ARGV[i], "PX", rules[RULE.pairing_ttl_ms])
    answer = "PAIRED"
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
