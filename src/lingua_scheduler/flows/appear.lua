#!lua flags=allow-oom
--[[ appear: an instance is there, for another `presence_ttl_ms`, and has an inbox. One whose inbox was closed after it
  had enlisted for this beat must enlist again: the directory has forgotten it. The name of another process that is
  there is its own, unless whoever wants it knows that this one is gone. Who read the inbox while nobody was there, and
  has nothing of it any more, is forgotten: their names would pile up.
  KEYS  presence · inbox · closed
  ARGV  now_ms rules, then for each: { beat gone_since_ms } presence                (presence: what it says of itself;
                                                       gone_since_ms: when the process started that is gone, 0 = none)
  OUT   APPEARED was_there | CLOSED | TAKEN presence                                                                ]]
local rules, answers = cmsgpack.unpack(ARGV[2]), {}

local function is_another(one, other)
  return one[PRESENCE.started_at_ms] ~= other[PRESENCE.started_at_ms]
    or one[PRESENCE.pid] ~= other[PRESENCE.pid]
    or one[PRESENCE.host] ~= other[PRESENCE.host]
end

local function forget_readers()
  for _, reader in ipairs(redis.call("XINFO", "CONSUMERS", KEY.inbox, INBOX.group)) do
    local _, name, _, pending = unpack(reader)
    if pending == 0 then
      redis.call("XGROUP", "DELCONSUMER", KEY.inbox, INBOX.group, name)
    end
  end
end

for i = 3, #ARGV, 2 do
  local beat, gone_since_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local answer = { "CLOSED" }
  local closed, known = redis.call("GET", KEY.closed), redis.call("GET", KEY.presence)
  local there = known and cmsgpack.unpack(known)
  if there and there[PRESENCE.started_at_ms] ~= gone_since_ms and is_another(there, cmsgpack.unpack(ARGV[i + 1])) then
    answer = { "TAKEN", there }
  elseif not closed or tonumber(closed) ~= beat then
    if redis.call("EXISTS", KEY.inbox) == 0 then
      redis.call("XGROUP", "CREATE", KEY.inbox, INBOX.group, "0", "MKSTREAM")
    elseif not there then
      forget_readers()
    end
    redis.call("SET", KEY.presence, ARGV[i + 1], "PX", rules[RULE.presence_ttl_ms])
    answer = { "APPEARED", there ~= false }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
