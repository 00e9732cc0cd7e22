-- Which services of a node are marked, as bits.                                                                 pure
local function marked_in(profile)
  local marked = 0
  for _, mark in ipairs(profile[PROFILE.marks]) do
    marked = bit.bor(marked, LACK.marks[mark[MARK.type]])
  end
  return marked
end
