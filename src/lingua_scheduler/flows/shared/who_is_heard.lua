-- How many nodes of the cell are silent, and how many are heard, of a large cell by a sample. Who is lost is neither.
-- Nodes that fall silent at once were heard last up to a beat apart: when the first is to be given up, the last are not
-- stale yet. So two thirds of that time are silence enough here, which is longer than a beat.
local function who_is_heard(now, rules)
  local most, silent, heard = 256, 0, 0
  local found = redis.call("HRANDFIELD", KEY.nodes, most, "WITHVALUES")
  for i = 2, #found, 2 do
    local node = cmsgpack.unpack(found[i])
    local is_silent = node[NODE.unheard] == 1
    if node[NODE.away_until_ms] == 0 then
      is_silent = 3 * (now - node[NODE.seen_at_ms]) >= 2 * rules[RULE.stale_ms]
    end
    if node[NODE.lost_at_ms] == 0 then
      silent, heard = silent + (is_silent and 1 or 0), heard + (is_silent and 0 or 1)
    end
  end
  if #found == 2 * most then
    local each = redis.call("HLEN", KEY.nodes) / most
    silent, heard = math.floor(each * silent), math.floor(each * heard)
  end
  return silent, heard
end
