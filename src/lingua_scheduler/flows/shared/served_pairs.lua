-- The directed pairs that a node's word makes it serve, sorted. `src:*` is every target. Semantic repair is the hard
-- gate: a field node whose service for it is not ready serves nothing until it is.                              pure
local function served_pairs(profile)
  for _, service in ipairs(profile[PROFILE.services]) do
    if profile[PROFILE.legacy] and service[1] == "semantic" and service[2] == false then
      return {}
    end
  end
  local semantic, asr, nmt = profile[PROFILE.semantic], profile[PROFILE.asr], profile[PROFILE.nmt]
  local tts = profile[PROFILE.tts]
  local heard
  if asr then
    heard = {}
    for _, language in ipairs(asr) do
      heard[language] = true
    end
  end
  local targets = tts or semantic
  local found, served = {}, {}
  for _, src in ipairs(semantic) do
    if not heard or heard[src] then
      if nmt == true then
        found[src .. ":*"] = true
      elseif nmt then
        for _, pair in ipairs(nmt) do
          local from, to = string.match(pair, "^(.-):(.+)$")
          if from == "*" or from == src then
            found[src .. ":" .. to] = true
          end
        end
      else
        for _, tgt in ipairs(targets) do
          found[src .. ":" .. tgt] = true
        end
      end
    end
  end
  for pair in pairs(found) do
    if string.sub(pair, -2) == ":*" or not found[string.match(pair, "^[^:]+") .. ":*"] then
      served[#served + 1] = pair
    end
  end
  table.sort(served)
  return served
end
