#!lua flags=no-writes
--[[ instance: what an instance says of itself, and how full its inbox is.
  KEYS  presence · inbox
  ARGV  now_ms rules, then for each: { }
  OUT   INSTANCE presence letters taken                                       (presence false = it is not there)     ]]
local answers = {}

for _ = 3, #ARGV do
  local presence, taken = redis.call("GET", KEY.presence), 0
  if redis.call("EXISTS", KEY.inbox) == 1 then
    taken = redis.call("XPENDING", KEY.inbox, INBOX.group)[1]
  end
  local letters = redis.call("XLEN", KEY.inbox)
  answers[#answers + 1] = cmsgpack.pack({ "INSTANCE", presence and cmsgpack.unpack(presence), letters, taken })
end
return answers
