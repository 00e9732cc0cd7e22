-- Marks of a node have ended: it may be chosen for what it can do again.
-- include: node_at, regroup, watch_marks
local function settle_marks(node_id, now)
  local profile, left = cmsgpack.unpack(redis.call("HGET", KEY.profiles, node_id)), {}
  for _, mark in ipairs(profile[PROFILE.marks]) do
    if mark[MARK.until_ms] > now then
      left[#left + 1] = mark
    end
  end
  profile[PROFILE.marks] = left
  watch_marks(node_id, profile)
  regroup(node_id, node_at(node_id), profile)
end
