#!lua
--[[ enter_session: one more utterance of a session: whether this principal may, whether there were not too many lately,
  and which number it has. Whoever gives them, no number is given twice. Those of the session's own connection are lent
  until it has saved that it has them: whoever goes on before that gets them back. Somebody else may have several at
  once, for what he is about to say, unless a connection has the session or may come back to it: that misses every
  number that is never said. Which job has such a number is written down for whoever takes the session over: nobody may
  have the session just then who could be told.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { principal utterance at_least rate burst ttl_ms owner number job trace
        timeout_ms }
        (utterance -1 = whichever is next, and not below at_least; owner "" = not the session itself;
        number: so many of those that are next; job "" = nobody need hear of it)
  OUT   ENTERED utterance number owner | TAKEN next | FORBIDDEN | SESSION_TAKEN | RATE_LIMITED retry_after_ms
        (owner: the connection that has the session, if somebody else asks; "" = none)                              ]]
-- include: clock, take_tokens, take_number, put_entry
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local principal, utterance, at_least, rate, burst, ttl_ms, owner, number, job, trace, timeout_ms =
    unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed) or NEW.entry
  local owned_by = owner == "" and redis.call("HGET", KEY.session, "owner") or ""
  if owned_by ~= "" then
    number = 1
  end
  local left, wait_ms = take_tokens(entry[ENTRY.tokens], entry[ENTRY.at_ms], now, rate, burst, number)
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
      entry[ENTRY.next] = entry[ENTRY.next] + number - 1
      entry[ENTRY.principal], entry[ENTRY.tokens], entry[ENTRY.at_ms] = principal, left, now
      put_entry(entry, ttl_ms)
      if holder then
        redis.call("HSET", KEY.session, "lent", (lent or "") .. cmsgpack.pack(utterance))
      end
      if owned_by ~= "" and job ~= "" then
        -- include: keep_given
        keep_given(utterance, job, trace, timeout_ms)
      end
      answer = { "ENTERED", utterance, number, owned_by }
    end
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
