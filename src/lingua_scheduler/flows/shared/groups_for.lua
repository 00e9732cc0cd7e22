-- The groups for a job; `waived` bits of what it needs are not asked for.
-- include: pair_for, fitting_groups
local function groups_for(ticket, waived)
  return fitting_groups(pair_for(ticket), ticket, waived)
end
