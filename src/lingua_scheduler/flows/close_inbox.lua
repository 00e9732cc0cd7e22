#!lua flags=allow-oom
--[[ close_inbox: an instance is gone, and no letter lies in its inbox. From now on it cannot appear by the beat with
  which it stands in the directory, so it may be struck from there.
  KEYS  presence · inbox · closed
  ARGV  now_ms rules, then for each: { beat }
  OUT   CLOSED | OPEN                                                                                               ]]
local answers = {}

for i = 3, #ARGV do
  local beat, answer = cmsgpack.unpack(ARGV[i])[1], "OPEN"
  if redis.call("EXISTS", KEY.presence) == 0 and redis.call("XLEN", KEY.inbox) == 0 then
    redis.call("SET", KEY.closed, beat, "PX", INBOX.closed_ms)
    redis.call("UNLINK", KEY.inbox)
    answer = "CLOSED"
  end
  answers[#answers + 1] = cmsgpack.pack({ answer })
end
return answers
