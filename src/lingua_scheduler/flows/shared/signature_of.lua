-- The name of an effective capability: nodes with the same one are interchangeable for every job.               pure
-- include: marked_in
local function signature_of(profile, served)
  return redis.sha1hex(cmsgpack.pack({
    served,
    profile[PROFILE.tts],
    profile[PROFILE.services],
    profile[PROFILE.labels],
    profile[PROFILE.public],
    marked_in(profile),
  }))
end
