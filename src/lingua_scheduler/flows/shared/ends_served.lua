-- Whether any node takes a pair's source, and whether any gives its target: so that a refusal can name what is missing.
local function ends_served(pair)
  local src, tgt = string.match(pair, "^(.-):(.+)$")
  local takes, gives, gives_any = unpack(redis.call("HMGET", KEY.ends, src .. ":", ":" .. tgt, ":*"))
  return takes and 1 or 0, (gives or gives_any) and 1 or 0
end
