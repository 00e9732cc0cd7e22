-- The lists of those who may go to their fallback now, because nobody alive serves their own pair: each with the
-- fallback. A pair that is served is passed over whole, however many wait for it.
-- include: is_live
local function fallen_lists()
  local found, after = {}, "[f"
  repeat
    local first = redis.call("ZRANGEBYLEX", KEY.queue, after, "(g", "LIMIT", 0, 1)[1]
    if first then
      local list, fallback, pair = string.match(first, "^(f([^:]+:[^:]+):([^:]+:[^:]+)):")
      found[#found + 1] = not is_live(pair) and { list, fallback } or nil
      after = "(" .. list .. ";"
    end
  until not first
  return found
end
