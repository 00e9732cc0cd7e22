#!lua flags=allow-oom
--[[ collect: a reader takes new letters out of an inbox; or once more some that it has taken already and not settled.
  `last` is the number of the last letter that lies there: if none was new, whatever is newer has a greater one.
  KEYS  inbox
  ARGV  now_ms rules, then for each: { reader first last limit }                             (first "": the new ones)
  OUT   LETTERS { number deliveries letter } last                                                                   ]]
-- include: take_new, take_again
local answers = {}

for i = 3, #ARGV do
  local reader, first, last, limit = unpack(cmsgpack.unpack(ARGV[i]))
  local found = {}
  if redis.call("EXISTS", KEY.inbox) == 1 then
    if first == "" then
      take_new(found, reader, limit)
    else
      take_again(found, redis.call("XPENDING", KEY.inbox, INBOX.group, first, last, limit, reader), reader)
    end
  end
  local newest = redis.call("XREVRANGE", KEY.inbox, "+", "-", "COUNT", 1)[1]
  answers[#answers + 1] = cmsgpack.pack({ "LETTERS", found, newest and newest[1] or "0-0" })
end
return answers
