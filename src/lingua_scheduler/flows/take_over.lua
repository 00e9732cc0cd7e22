#!lua flags=allow-oom
--[[ take_over: the letters of an instance that is gone become another's, who has `letter_lease_ms` to settle them.
  Those that it had taken itself, and those that nobody has, at once; those that another took, when his lease is over.
  The owner, too, takes back from his own inbox what another took and did not settle.
  KEYS  presence · inbox
  ARGV  now_ms rules, then for each: { owner reader limit }                    (limit: of each of these three sorts)
  OUT   LETTERS { number deliveries letter } | ALIVE                                                                ]]
-- include: take_new, take_again
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local owner, reader, limit = unpack(cmsgpack.unpack(ARGV[i]))
  local answer, found = { "ALIVE" }, {}
  if owner == reader or redis.call("EXISTS", KEY.presence) == 0 then
    if redis.call("EXISTS", KEY.inbox) == 1 then
      if owner ~= reader then
        take_again(found, redis.call("XPENDING", KEY.inbox, INBOX.group, "-", "+", limit, owner), reader)
        take_new(found, reader, limit)
      end
      local lease_ms = rules[RULE.letter_lease_ms]
      take_again(found, redis.call("XPENDING", KEY.inbox, INBOX.group, "IDLE", lease_ms, "-", "+", limit), reader)
    end
    answer = { "LETTERS", found }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
