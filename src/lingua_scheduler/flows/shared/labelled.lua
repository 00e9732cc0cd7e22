-- Those of some groups whose nodes carry all of these labels.
local function labelled(groups, labels)
  local found = {}
  for i, packed in ipairs(#groups > 0 and redis.call("HMGET", KEY.groups, unpack(groups)) or {}) do
    local _, _, _, carried = cmsgpack.unpack_limit(packed, 3, GROUP.header)
    local value, fits = {}, true
    for _, label in ipairs(carried) do
      value[label[1]] = label[2]
    end
    for _, label in ipairs(labels) do
      fits = fits and value[label[1]] == label[2]
    end
    found[#found + 1] = fits and groups[i] or nil
  end
  return found
end
