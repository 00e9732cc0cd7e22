#!lua
--[[ note: something happened that people should see. Only the newest notices are kept. Of what whoever looks can see,
  the first word counts: the same about the same again within a minute, or an older look, is not noted. Where a
  script has said since how it stands, it is not the same.
  KEYS  notices
  ARGV  now_ms rules, then for each: notice (msgpack, `Notice`)
  OUT   NOTED id | KNOWN                                                                                            ]]
local answers, stands = {}, NOTICES.stands

local function is_known(notice)
  for _, entry in ipairs(redis.call("XREVRANGE", KEY.notices, "+", "-", "COUNT", NOTICES.looked_back)) do
    local last = cmsgpack.unpack(entry[2][2])
    local says = last[NOTICE.seen] or stands[last[NOTICE.kind]]
    if says and last[NOTICE.about] == notice[NOTICE.about] then
      local ago_ms = notice[NOTICE.at_ms] - last[NOTICE.at_ms]
      return ago_ms < 0 or ago_ms < NOTICES.same_ms and last[NOTICE.kind] == notice[NOTICE.kind]
    end
  end
  return false
end

for i = 3, #ARGV do
  local notice, answer = cmsgpack.unpack(ARGV[i]), { "KNOWN" }
  if not (notice[NOTICE.seen] and is_known(notice)) then
    answer = { "NOTED", redis.call("XADD", KEY.notices, "MAXLEN", NOTICES.most, "*", "notice", ARGV[i]) }
    redis.call("PEXPIRE", KEY.notices, NOTICES.kept_ms)
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
