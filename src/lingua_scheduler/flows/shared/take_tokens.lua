-- What a bucket has left after `cost` tokens were taken from it; if it has not so many: nil, and in how many
-- milliseconds it will. Tokens are counted in thousandths, of which so many drip in with each millisecond as there are
-- whole ones in a second; no more than `burst` stay.
local function take_tokens(tokens, at_ms, now, rate, burst, cost)
  local left = math.min(burst * 1000, tokens + math.max(0, now - at_ms) * rate) - cost * 1000
  if left < 0 then
    return nil, math.ceil(-left / rate)
  end
  return left
end
