-- The label `group` of a group's nodes; "" if they have none.
local function pool_of(group)
  local _, _, _, labels = cmsgpack.unpack_limit(redis.call("HGET", KEY.groups, group), 3, GROUP.header)
  for _, label in ipairs(labels) do
    if label[1] == "group" then
      return label[2]
    end
  end
  return ""
end
