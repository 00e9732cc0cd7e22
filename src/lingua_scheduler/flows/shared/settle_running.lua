-- A node says which attempts it works on. Those that are not its current ones it must cancel; a fenced attempt that it
-- does not name is over, unless the fence is so fresh that the word may be older. Returns what to cancel, which of its
-- current attempts it does not name, what it names that is not in the ledger, and what it really has.
-- include: leases_of, end_limbo
local function settle_running(node_id, node, running, fenced_before, now, rules)
  local named, cancel, unnamed, kept = {}, {}, {}, {}
  for _, attempt in ipairs(running) do
    named[node_id .. ":" .. attempt[1] .. ":" .. attempt[2]] = attempt
  end
  for _, entry in ipairs(leases_of(node_id)) do
    local lease = entry[1]
    local fenced_at = tonumber(redis.call("HGET", KEY.limbo, lease))
    if fenced_at and named[lease] then
      cancel[#cancel + 1] = { entry[2], entry[3] }
    elseif fenced_at and fenced_at <= fenced_before then
      end_limbo(node_id, node, lease, now, rules)
    elseif not fenced_at then
      local list = named[lease] and kept or unnamed
      list[#list + 1] = entry
    end
    named[lease] = nil
  end
  local strangers = {}
  for lease, attempt in pairs(named) do
    strangers[#strangers + 1] = { lease, attempt[1], attempt[2] }
  end
  table.sort(strangers, function(a, b)
    return a[1] < b[1]
  end)
  for _, entry in ipairs(strangers) do
    cancel[#cancel + 1] = { entry[2], entry[3] }
  end
  return cancel, unnamed, strangers, kept
end
