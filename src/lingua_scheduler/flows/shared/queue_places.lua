-- Where a job without a node stands: in the list of its pair, in the line of every group that could serve that, in that
-- of the node it names, and in the list of its fallback. In each by deadline: the first is the one who must hurry.
-- include: line_of, fitting_groups
local function queue_places(job_id, job, ticket)
  local at = string.format(":%015d:%s", job[JOB.deadline_at_ms], job_id)
  local pair, fallback, wishes = ticket[TICKET.pair], ticket[TICKET.fallback], ticket[TICKET.wishes][1]
  local places, line = { "w" .. pair .. at }, line_of(job, ticket)
  if wishes and wishes[WISHES.named] ~= "" then
    places[2] = "n" .. wishes[WISHES.named] .. at
  end
  if line then
    for _, group in ipairs(fitting_groups(pair, ticket, 0)) do
      places[#places + 1] = line .. group .. at
    end
  end
  if fallback ~= "" then
    places[#places + 1] = "f" .. fallback .. ":" .. pair .. at
  end
  return places
end
