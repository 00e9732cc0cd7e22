-- What the nodes of this word lack, as bits, whatever the pair.                                                  pure
-- include: marked_in
local function lacks_of(profile)
  local lacks = marked_in(profile) + (profile[PROFILE.public] and 0 or LACK.private)
  for _, service in ipairs(profile[PROFILE.services]) do
    if not service[2] then
      lacks = lacks + LACK.services[service[1]]
    end
  end
  return lacks
end
