-- The name of an effective capability: nodes with the same one are interchangeable for every job. It begins with the
-- name of their kind, which is what they said they can do; what is marked comes behind it.                      pure
-- include: marked_in
local function signature_of(profile, served)
  local kind = redis.sha1hex(cmsgpack.pack({
    served,
    profile[PROFILE.tts],
    profile[PROFILE.services],
    profile[PROFILE.labels],
    profile[PROFILE.public],
  }))
  local marked = marked_in(profile)
  return marked > 0 and kind .. "+" .. marked or kind
end
