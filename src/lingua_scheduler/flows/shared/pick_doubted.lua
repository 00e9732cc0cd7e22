-- The same where some are under suspicion. They come last; but if they are more than half of all, it is not they that
-- are to blame, and nobody is suspect.
-- include: pick_from, is_panic
local function pick_doubted(groups, job, policy, banned, avoid)
  local trusted, suspect = { {}, {} }, { {}, {}, "suspect" }
  local tiers = { trusted, suspect }
  if is_panic(groups) then
    trusted[3], tiers = "panic", { trusted }
  end
  for _, standing in ipairs({ STANDING.available, STANDING.suspect }) do
    local tier = tiers[standing + 1] or trusted
    for _, group in ipairs(groups) do
      local score = STANDING.count * group + standing
      tier[1][#tier[1] + 1] = score / STANDING.count
      tier[2][#tier[2] + 1] = redis.call("ZCOUNT", KEY.standing, score, score)
    end
  end
  for _, avoided in ipairs(#avoid > 0 and { avoid, {} } or { {} }) do
    for _, tier in ipairs(tiers) do
      local node_id, node, number = pick_from(tier[1], tier[2], job, policy, banned, avoided)
      if node_id then
        return node_id, node, number, tier[3]
      end
    end
  end
end
