-- Why none of these groups' nodes could be chosen: sizes of kept sets, each node counted once under its first reason.
local function breakdown(groups)
  local pool, full, stale, not_ready, draining, resting = 0, 0, 0, 0, 0, 0
  for _, group in ipairs(groups) do
    local first = STANDING.count * group
    local function number(standing)
      return redis.call("ZCOUNT", KEY.standing, first + standing, first + standing)
    end
    pool = pool + redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1)
    full = full + number(STANDING.full)
    stale = stale + number(STANDING.stale)
    not_ready = not_ready + number(STANDING.not_ready)
    draining = draining + number(STANDING.draining)
    resting = resting + number(STANDING.resting)
  end
  return { "ALL_CANDIDATES_FULL_OR_FAILED", pool, full, stale, not_ready, draining, resting }
end
