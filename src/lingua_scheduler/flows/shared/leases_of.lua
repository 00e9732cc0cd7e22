-- The leases of a node, in order: { lease, job id, attempt }.
local function leases_of(node_id)
  local found = redis.call("ZRANGEBYLEX", KEY.leases, "[" .. node_id .. ":", "(" .. node_id .. ";")
  for i, lease in ipairs(found) do
    local job_id, attempt = string.match(lease, "^[^:]+:([^:]+):(%d+)$")
    found[i] = { lease, job_id, tonumber(attempt) }
  end
  return found
end
