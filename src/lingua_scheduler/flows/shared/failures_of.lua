-- How many of its last jobs a node failed.                                                                       pure
local function failures_of(recent)
  local failures = 0
  while recent > 0 do
    failures = failures + recent % 2
    recent = math.floor(recent / 2)
  end
  return failures
end
