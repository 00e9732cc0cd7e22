-- Add to `found` letters that nobody has taken yet: they are the reader's until they are settled.
local function take_new(found, reader, limit)
  local read =
    redis.call("XREADGROUP", "GROUP", INBOX.group, reader, "COUNT", limit, "STREAMS", KEY.inbox, ">")
  for _, entry in ipairs(read and read[1][2] or {}) do
    found[#found + 1] = { entry[1], 1, cmsgpack.unpack(entry[2][2]) }
  end
end
