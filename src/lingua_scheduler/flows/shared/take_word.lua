-- Take over what a node says of its capabilities; what it leaves out stays as it was.                            pure
local function take_word(profile, word)
  for _, field in ipairs({
    { "semantic", PROFILE.semantic },
    { "asr", PROFILE.asr },
    { "nmt", PROFILE.nmt },
    { "tts", PROFILE.tts },
    { "services", PROFILE.services },
    { "labels", PROFILE.labels },
    { "public", PROFILE.public },
    { "legacy", PROFILE.legacy },
  }) do
    if word[field[1]] ~= nil then
      profile[field[2]] = word[field[1]]
    end
  end
end
