#!lua
--[[ enter_session: one more utterance of a session: whether this principal may, whether there were not too many lately,
  and which number it has. Numbers only grow, whoever gives them: one that was given before, or passed over, is gone.
  KEYS  entry
  ARGV  now_ms rules, then for each: { principal utterance at_least rate burst ttl_ms }
        (utterance -1 = whichever is next, and not below at_least)
  OUT   ENTERED utterance | PASSED next | FORBIDDEN | RATE_LIMITED retry_after_ms                                   ]]
-- include: clock, take_tokens, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, utterance, at_least, rate, burst, ttl_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  local left, wait_ms = take_tokens(entry[ENTRY.tokens], entry[ENTRY.at_ms], now, rate, burst, 1)
  local answer = { "RATE_LIMITED", wait_ms }
  if packed and entry[ENTRY.principal] ~= principal then
    answer = { "FORBIDDEN" }
  elseif utterance >= 0 and utterance < entry[ENTRY.next] then
    answer = { "PASSED", entry[ENTRY.next] }
  elseif left then
    utterance = utterance < 0 and math.max(entry[ENTRY.next], at_least) or utterance
    entry[ENTRY.principal], entry[ENTRY.next] = principal, utterance + 1
    entry[ENTRY.tokens], entry[ENTRY.at_ms] = left, now
    put_entry(entry, ttl_ms)
    answer = { "ENTERED", utterance }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
