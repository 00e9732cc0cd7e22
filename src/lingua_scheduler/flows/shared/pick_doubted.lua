-- The same where some are under suspicion. They come last, and not for a job that they had before they are tried again:
-- it waits for another. But if they are more than half of all, it is not they that are to blame, and nobody is suspect.
-- include: room_in, is_panic, had_by, node_at, is_doubtful, pick_from
local function pick_doubted(groups, job, policy, banned, avoid, now, pool)
  local _, trusted, doubted = room_in(groups)
  local rows, suspects = { unpack(groups) }, {}
  for i, group in ipairs(groups) do
    suspects[i] = group + STANDING.suspect / STANDING.count
  end
  local tiers = { { rows, trusted, banned } }
  if is_panic(pool or groups) then
    for i, row in ipairs(suspects) do
      rows[#rows + 1], trusted[#trusted + 1] = row, doubted[i]
    end
    tiers[1][4] = "panic"
  elseif not pool then
    local not_again = { unpack(banned) }
    for _, node_id in ipairs(had_by(job)) do
      local node = node_at(node_id)
      not_again[#not_again + 1] = node and is_doubtful(node, now) and node_id or nil
    end
    tiers[2] = { suspects, doubted, not_again, "suspect" }
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
