#!lua flags=no-writes
--[[ explain: a page of the fleet, and of each node whether it could take a job now, or the first reason why not.
  KEYS  nodes · standing · groups · pairs
  ARGV  now_ms rules, then for each: { ticket cursor count }                (cursor "0" = from the start)
  OUT   VERDICTS cursor { node_id reason record }                           (reason "" = it could take it)           ]]
-- include: pair_for, groups_of, fitting_groups
local answers = {}

local function set_of(...)
  local set = {}
  for _, groups in ipairs({ ... }) do
    for _, group in ipairs(groups) do
      set[group] = true
    end
  end
  return set
end

for i = 3, #ARGV do
  local ticket, cursor, count = unpack(cmsgpack.unpack(ARGV[i]))
  local wishes, excluded = ticket[TICKET.wishes][1], {}
  for _, node_id in ipairs(wishes and wishes[WISHES.excluded] or {}) do
    excluded[node_id] = true
  end
  local named, strict = wishes and wishes[WISHES.named], wishes and wishes[WISHES.strict] == 1
  local pair, fallback = ticket[TICKET.pair], ticket[TICKET.fallback]
  local served = pair_for(ticket)

  local function fit(waived)
    return set_of(fitting_groups(pair, ticket, waived), fitting_groups(served, ticket, waived))
  end
  local pool, spare = set_of(groups_of(pair, 0)), fallback ~= "" and set_of(groups_of(fallback, 0)) or {}
  local fitting, permitted, working = fit(LACK.private + LACK.marked), fit(LACK.marked), fit(LACK.private)
  local page = redis.call("HSCAN", KEY.nodes, cursor, "COUNT", count)
  local verdicts = {}
  for n = 1, #page[2], 2 do
    local node_id, node = page[2][n], cmsgpack.unpack(page[2][n + 1])
    local group, standing, reason = node[NODE.group], node[NODE.standing], ""
    if excluded[node_id] then
      reason = "excluded"
    elseif strict and node_id ~= named then
      reason = "not_named"
    elseif not pool[group] and not spare[group] then
      reason = "no_pool"
    elseif not fitting[group] then
      reason = (pool[group] or served == fallback) and "no_service" or "fallback"
    elseif not permitted[group] and node_id ~= named then
      reason = "not_permitted"
    elseif not working[group] then
      reason = "marked"
    elseif standing > STANDING.suspect then
      reason = STANDING.names[standing + 1]
    end
    verdicts[#verdicts + 1] = { node_id, reason, node }
  end
  answers[#answers + 1] = cmsgpack.pack({ "VERDICTS", page[1], verdicts })
end
return answers
