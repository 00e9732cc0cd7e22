#!lua
--[[ enter_session: one more utterance of a session: whether this principal may, whether there were not too many lately,
  and which number it has. Whoever gives them, no number is given twice.
  KEYS  entry
  ARGV  now_ms rules, then for each: { principal utterance at_least rate burst ttl_ms }
        (utterance -1 = whichever is next, and not below at_least)
  OUT   ENTERED utterance | TAKEN next | FORBIDDEN | RATE_LIMITED retry_after_ms                                    ]]
-- include: clock, take_tokens, take_number, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, utterance, at_least, rate, burst, ttl_ms = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  local left, wait_ms = take_tokens(entry[ENTRY.tokens], entry[ENTRY.at_ms], now, rate, burst, 1)
  local answer = { "RATE_LIMITED", wait_ms }
  if packed and entry[ENTRY.principal] ~= principal then
    answer = { "FORBIDDEN" }
  else
    if utterance < 0 then
      entry[ENTRY.next] = math.max(entry[ENTRY.next], at_least)
      utterance = entry[ENTRY.next]
    end
    local following = entry[ENTRY.next]
    if not take_number(entry, utterance) then
      answer = { "TAKEN", following }
    elseif left then
      entry[ENTRY.principal], entry[ENTRY.tokens], entry[ENTRY.at_ms] = principal, left, now
      put_entry(entry, ttl_ms)
      answer = { "ENTERED", utterance }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
