-- Where a job without a node stands: in the list of its pair (and of its fallback), in the line of every group that
-- could serve it, and in that of the node it names. In each by deadline, so that the first is the one who must hurry.
-- include: line_of, fitting_groups
local function queue_places(job_id, job, ticket)
  local at = string.format(":%015d:%s", job[JOB.deadline_at_ms], job_id)
  local pair, fallback, wishes = ticket[TICKET.pair], ticket[TICKET.fallback], ticket[TICKET.wishes][1]
  local places, line, stands = { "w" .. pair .. at }, line_of(job, ticket), {}
  if wishes and wishes[WISHES.named] ~= "" then
    places[2] = "n" .. wishes[WISHES.named] .. at
  end
  if fallback ~= "" then
    places[#places + 1] = "f" .. fallback .. ":" .. pair .. at
  end
  for _, wanted in ipairs(line and { pair, fallback ~= "" and fallback or nil } or {}) do
    for _, group in ipairs(fitting_groups(wanted, ticket, 0)) do
      if not stands[group] then
        stands[group] = true
        places[#places + 1] = line .. group .. at
      end
    end
  end
  return places
end
