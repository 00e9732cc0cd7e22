#!lua flags=allow-oom
--[[ appear: an instance is there, for another `presence_ttl_ms`, and has an inbox. One whose inbox was closed after it
  had enlisted for this beat must enlist again: the directory has forgotten it.
  KEYS  presence · inbox · closed
  ARGV  now_ms rules, then for each: { beat } presence                               (presence: what it says of itself)
  OUT   APPEARED was_there | CLOSED                                                                                 ]]
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV, 2 do
  local beat = cmsgpack.unpack(ARGV[i])[1]
  local answer = { "CLOSED" }
  local closed, was_there = redis.call("GET", KEY.closed), redis.call("EXISTS", KEY.presence)
  if not closed or tonumber(closed) ~= beat then
    if redis.call("EXISTS", KEY.inbox) == 0 then
      redis.call("XGROUP", "CREATE", KEY.inbox, INBOX.group, "0", "MKSTREAM")
    end
    redis.call("SET", KEY.presence, ARGV[i + 1], "PX", rules[RULE.presence_ttl_ms])
    answer = { "APPEARED", was_there == 1 }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
