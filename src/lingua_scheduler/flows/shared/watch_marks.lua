-- Enter a node in the due-list for the end of its first mark.
local function watch_marks(node_id, profile)
  local first
  for _, mark in ipairs(profile[PROFILE.marks]) do
    first = math.min(first or mark[MARK.until_ms], mark[MARK.until_ms])
  end
  if first then
    redis.call("ZADD", KEY.due, first, "m:" .. node_id)
  end
end
