-- Whether just so many bytes are kept of what a session has heard since `front`. As many may be there of what it heard
-- before: a server that takes over may have forgotten the rest.
local function is_kept(front, size)
  return redis.call("STRLEN", KEY.heard) == size
    and redis.call("HGET", KEY.session, "heard") == string.format("%.0f", front)
end
