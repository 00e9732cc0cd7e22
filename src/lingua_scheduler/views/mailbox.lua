#!lua flags=no-writes
--[[ mailbox: the attempts that were handed to a node and that it has not accepted yet.
  KEYS  profiles · jobs · leases
  ARGV  now_ms rules, then for each: { node_id }
  OUT   MAILBOX { job_id attempt } | UNKNOWN_NODE | STALE_ATTEMPT (it has a socket: its work is written there)      ]]
-- include: leases_of
local answers = {}

for i = 3, #ARGV do
  local node_id = cmsgpack.unpack(ARGV[i])[1]
  local answer, found = { "UNKNOWN_NODE" }, {}
  local profile = redis.call("HGET", KEY.profiles, node_id)
  if profile and cmsgpack.unpack(profile)[PROFILE.connection] ~= "" then
    answer = { "STALE_ATTEMPT" }
  elseif profile then
    for _, lease in ipairs(leases_of(node_id)) do
      -- A node may also hold what nobody knows, or what was given to another since.
      local packed = redis.call("HGET", KEY.jobs, lease[2])
      if packed then
        local _, state, attempt = cmsgpack.unpack_limit(packed, 2, JOB.header)
        if state == "DISPATCHED" and attempt == lease[3] then
          found[#found + 1] = { lease[2], attempt }
        end
      end
    end
    answer = { "MAILBOX", found }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
