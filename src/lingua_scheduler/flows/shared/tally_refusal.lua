-- Count a refusal under its code; that nobody serves the pair at all is counted by itself.
-- include: tally
local function tally_refusal(refusal)
  local is_empty = refusal[1] == "NO_CAPABLE_NODE" and refusal[4] == 0
  tally("refused." .. (is_empty and "pool_empty" or refusal[1]), 1)
end
