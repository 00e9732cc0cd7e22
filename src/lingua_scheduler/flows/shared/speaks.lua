-- Whether the nodes of a group speak a language.
local function speaks(group, language)
  local _, _, tts = cmsgpack.unpack_limit(redis.call("HGET", KEY.groups, group), 2, GROUP.header)
  for _, spoken in ipairs(tts or {}) do
    if spoken == language then
      return true
    end
  end
  return false
end
