-- Take a number of a session, if nobody has it: one above all that were given, or one that was passed over or given
-- back. Says whether it could be had.
-- include: stretch_of, set_free
local function take_number(entry, number)
  local following = entry[ENTRY.next]
  if number >= following then
    set_free(entry, following, number - 1)
    entry[ENTRY.next] = number + 1
    return true
  end
  local at = stretch_of(entry[ENTRY.free], number)
  if at then
    local first, last = unpack(table.remove(entry[ENTRY.free], at))
    set_free(entry, first, number - 1)
    set_free(entry, number + 1, last)
  end
  return at ~= nil
end
