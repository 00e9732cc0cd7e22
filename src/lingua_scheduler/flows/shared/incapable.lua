-- Why no node could ever take a job: whether any takes the source and any gives the target of its pair, how many serve
-- the pair, and what of its needs all of these lack.
-- include: groups_of, ends_served
local function incapable(ticket)
  local pair, nodes, lacks = ticket[TICKET.pair], 0, 0
  for _, group in ipairs(groups_of(pair, 0)) do
    local first = STANDING.count * group
    nodes = nodes + redis.call("ZCOUNT", KEY.standing, first, first + STANDING.count - 1)
  end
  for need = 1, LACK.bits do
    local lacking = 2 ^ (need - 1)
    if bit.band(ticket[TICKET.needs], lacking) ~= 0 and #groups_of(pair, lacking) == 0 then
      lacks = lacks + lacking
    end
  end
  local takes, gives = ends_served(pair)
  return { "NO_CAPABLE_NODE", takes, gives, nodes, lacks }
end
