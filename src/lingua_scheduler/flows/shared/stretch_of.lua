-- Which of the stretches of free numbers has this one; nil if none has.                                         pure
local function stretch_of(free, number)
  for i, stretch in ipairs(free) do
    if stretch[1] <= number and number <= stretch[2] then
      return i
    end
  end
end
