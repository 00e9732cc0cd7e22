#!lua flags=no-writes
--[[ instance: what an instance says of itself, and how full its inbox is.
  KEYS  presence · inbox
  ARGV  now_ms rules, then for each: { }
  OUT   INSTANCE presence letters taken left_ms                   (presence false = it is not there, and left_ms 0)  ]]
local answers = {}

for _ = 3, #ARGV do
  local presence, taken = redis.call("GET", KEY.presence), 0
  local left_ms = math.max(redis.call("PTTL", KEY.presence), 0)
  if redis.call("EXISTS", KEY.inbox) == 1 then
    taken = redis.call("XPENDING", KEY.inbox, INBOX.group)[1]
  end
  local letters = redis.call("XLEN", KEY.inbox)
  local said = presence and cmsgpack.unpack(presence)
  answers[#answers + 1] = cmsgpack.pack({ "INSTANCE", said, letters, taken, left_ms })
end
return answers
