#!lua flags=allow-oom
--[[ post: a letter is put into the inbox of an instance that is there. A full inbox refuses: nothing is pushed out.
  KEYS  presence · inbox
  ARGV  now_ms rules, then for each: letter
  OUT   SENT number | INSTANCE_GONE | INBOX_FULL                                                                    ]]
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

for i = 3, #ARGV do
  local answer
  if redis.call("EXISTS", KEY.presence) == 0 then
    answer = { "INSTANCE_GONE" }
  elseif redis.call("XLEN", KEY.inbox) >= rules[RULE.inbox_max] then
    answer = { "INBOX_FULL" }
  else
    local number = redis.call("XADD", KEY.inbox, "NOMKSTREAM", "*", "letter", ARGV[i])
    answer = number and { "SENT", number } or { "INSTANCE_GONE" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
