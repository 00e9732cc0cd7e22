#!lua
--[[ enter_session: one more utterance of a session: whether this principal may, whether there were not too many lately,
  and which number it has. Whoever gives them, no number is given twice. Those of the session's own connection are lent
  until it has saved that it has them: whoever goes on before that gets them back.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { principal utterance at_least rate burst ttl_ms owner }
        (utterance -1 = whichever is next, and not below at_least; owner "" = not the session itself)
  OUT   ENTERED utterance | TAKEN next | FORBIDDEN | SESSION_TAKEN | RATE_LIMITED retry_after_ms                    ]]
-- include: clock, take_tokens, take_number, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, utterance, at_least, rate, burst, ttl_ms, owner = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  local left, wait_ms = take_tokens(entry[ENTRY.tokens], entry[ENTRY.at_ms], now, rate, burst, 1)
  local answer, holder, lent = { "RATE_LIMITED", wait_ms }
  if owner ~= "" then
    holder, lent = unpack(redis.call("HMGET", KEY.session, "owner", "lent"))
  end
  if packed and entry[ENTRY.principal] ~= principal then
    answer = { "FORBIDDEN" }
  elseif holder and holder ~= owner then
    answer = { "SESSION_TAKEN" }
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
      if holder then
        redis.call("HSET", KEY.session, "lent", (lent or "") .. cmsgpack.pack(utterance))
      end
      answer = { "ENTERED", utterance }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
