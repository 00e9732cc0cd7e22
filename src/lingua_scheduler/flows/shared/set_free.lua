-- A stretch of numbers of a session that can be given. Only so many are remembered: the oldest counts as taken then.
local function set_free(entry, first, last)
  local free = entry[ENTRY.free]
  if first <= last then
    free[#free + 1] = { first, last }
  end
  if #free > FREE.most then
    table.remove(free, 1)
  end
end
