-- The groups that serve a pair and have all that a job asks for; `waived` bits of what it needs are not asked for.
-- include: groups_of
local function fitting_groups(pair, ticket, waived)
  local needs, wishes = ticket[TICKET.needs], ticket[TICKET.wishes][1]
  if waived > 0 then
    needs = bit.band(needs, bit.bnot(waived))
  end
  local groups = groups_of(pair, needs)
  if wishes and wishes[WISHES.back] ~= "" then
    local both, back = {}, {}
    for _, group in ipairs(groups_of(wishes[WISHES.back], needs)) do
      back[group] = true
    end
    for _, group in ipairs(groups) do
      both[#both + 1] = back[group] and group or nil
    end
    groups = both
  end
  if wishes and #wishes[WISHES.labels] > 0 then
    -- include: labelled
    groups = labelled(groups, wishes[WISHES.labels])
  end
  return groups
end
