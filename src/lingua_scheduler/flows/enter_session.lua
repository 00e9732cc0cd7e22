#!lua
--[[ enter_session: one more utterance of a session: whether this principal may, whether there were not too many lately,
  and which number it has. Numbers only grow: one that the caller gives is passed by the next that he does not.
  KEYS  entry
  ARGV  now_ms rules, then for each: { principal utterance rate burst ttl_ms }      (utterance -1 = whichever is next)
  OUT   ENTERED utterance | FORBIDDEN | RATE_LIMITED retry_after_ms                                                 ]]
-- include: clock, take_tokens, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, utterance, rate, burst, ttl_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  local left, wait_ms = take_tokens(entry[ENTRY.tokens], entry[ENTRY.at_ms], now, rate, burst, 1)
  local answer = { "RATE_LIMITED", wait_ms }
  if packed and entry[ENTRY.principal] ~= principal then
    answer = { "FORBIDDEN" }
  elseif left then
    utterance = utterance < 0 and entry[ENTRY.next] or utterance
    entry[ENTRY.principal], entry[ENTRY.next] = principal, math.max(entry[ENTRY.next], utterance + 1)
    entry[ENTRY.tokens], entry[ENTRY.at_ms] = left, now
    put_entry(entry, ttl_ms)
    answer = { "ENTERED", utterance }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
