-- Write down who may use a session, and its numbers, for at least so long from now on; never for less than before. At
-- least a millisecond: the engine takes no less, and in its last one a key may have none left.
local function put_entry(entry, ttl_ms)
  redis.call("SET", KEY.entry, cmsgpack.pack(entry), "PX", math.max(ttl_ms, redis.call("PTTL", KEY.entry)))
end
