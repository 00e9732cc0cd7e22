-- If nodes came to have room, or one fell whose place others may take, those who wait are served. The last act on every
-- item that may have changed that, so that folded calls end as they would one by one. When nobody waits it is one call.
-- Says how many were served.
-- include: node_at
local function serve(now)
  local served = 0
  if #woken > 0 or has_fallen then
    if redis.call("ZCARD", KEY.queue) > 0 then
      -- include: serve_woken, serve_fallen
      served = serve_woken(now)
      if has_fallen then
        served = served + serve_fallen(now)
      end
    end
    woken, has_fallen = {}, false
  end
  return served
end
