-- Add to `found` letters that were taken before, as XPENDING tells of them: from now on they are this reader's. One
-- that somebody cut out of the inbox by hand is not waited for any longer.
local function take_again(found, pending, reader)
  for _, taken in ipairs(pending) do
    local entry = redis.call("XCLAIM", KEY.inbox, INBOX.group, reader, 0, taken[1])[1]
    if entry then
      found[#found + 1] = { entry[1], taken[4] + 1, cmsgpack.unpack(entry[2][2]) }
    end
  end
end
