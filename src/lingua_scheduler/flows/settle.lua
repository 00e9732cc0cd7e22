#!lua flags=allow-oom
--[[ settle: a letter was handled, or is a dead letter now. It leaves its inbox, whoever had taken it.
  KEYS  inbox
  ARGV  now_ms rules, then for each: { number }
  OUT   SETTLED was_there                                                                                           ]]
local answers = {}

for i = 3, #ARGV do
  local number = cmsgpack.unpack(ARGV[i])[1]
  redis.call("XACK", KEY.inbox, INBOX.group, number)
  answers[#answers + 1] = cmsgpack.pack({ "SETTLED", redis.call("XDEL", KEY.inbox, number) == 1 })
end
return answers
