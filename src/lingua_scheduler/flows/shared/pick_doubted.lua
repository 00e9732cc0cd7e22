-- The same where some are under suspicion. They come last, and not at all for a job that they had: it waits for
-- another, or until they are tried again. But if they are more than half of all, it is not they that are to blame, and
-- nobody is suspect.
-- include: room_in, is_panic, had_by, pick_from
local function pick_doubted(groups, job, policy, banned, avoid)
  local _, trusted, doubted = room_in(groups)
  local rows, suspects = { unpack(groups) }, {}
  for i, group in ipairs(groups) do
    suspects[i] = group + STANDING.suspect / STANDING.count
  end
  local tiers
  if is_panic(groups) then
    for i, row in ipairs(suspects) do
      rows[#rows + 1], trusted[#trusted + 1] = row, doubted[i]
    end
    tiers = { { rows, trusted, banned, "panic" } }
  else
    local not_again = { unpack(banned) }
    for _, node_id in ipairs(had_by(job)) do
      not_again[#not_again + 1] = node_id
    end
    tiers = { { rows, trusted, banned }, { suspects, doubted, not_again, "suspect" } }
  end
  for _, avoided in ipairs(#avoid > 0 and { avoid, {} } or { {} }) do
    for _, tier in ipairs(tiers) do
      local node_id, node, number = pick_from(tier[1], tier[2], job, policy, tier[3], avoided)
      if node_id then
        return node_id, node, number, tier[4]
      end
    end
  end
end
