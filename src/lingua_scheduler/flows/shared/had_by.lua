-- The nodes that had a job before, each once.                                                                    pure
local function had_by(job)
  local had, named = {}, {}
  for _, attempt in ipairs(#job[JOB.past] > 0 and job[JOB.past][PAST.attempts] or {}) do
    local node_id = attempt[PAST_ATTEMPT.node]
    if not named[node_id] then
      named[node_id] = true
      had[#had + 1] = node_id
    end
  end
  return had
end
