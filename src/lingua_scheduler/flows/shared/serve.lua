-- If nodes came to have room, those who wait take it. The last act on every item that may have freed something, so that
-- folded calls end as they would one by one.
-- include: node_at, tally
local function serve(now)
  if #woken > 0 then
    -- include: serve_woken
    tally("attempt.again", serve_woken(now))
  end
end
