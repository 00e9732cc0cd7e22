-- Whether any node takes a pair's source, and whether any gives its target: so that a refusal can name what is missing.
local function ends_served(pair)
  local src, tgt = string.match(pair, "^(.-):(.+)$")
  local takes, gives = false, false
  for _, served in ipairs(redis.call("HKEYS", KEY.pairs)) do
    local from, to = string.match(served, "^(.-):(.+)$")
    takes = takes or from == src
    gives = gives or to == tgt or to == "*"
  end
  return takes, gives
end
