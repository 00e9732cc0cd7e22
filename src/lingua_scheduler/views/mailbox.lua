#!lua flags=no-writes
--[[ mailbox: the attempts that were handed to a node and that it has not accepted yet.
  KEYS  profiles · jobs · guests · leases
  ARGV  now_ms rules, then for each: { node_id }
  OUT   MAILBOX { job_id attempt } { guests: job_id attempt }     (whether a guest was accepted, only its home knows)
        UNKNOWN_NODE | STALE_ATTEMPT                              (it has a socket: its work is written there)        ]]
-- include: leases_of
local answers = {}

for i = 3, #ARGV do
  local node_id = cmsgpack.unpack(ARGV[i])[1]
  local answer, found, guests = { "UNKNOWN_NODE" }, {}, {}
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
      elseif redis.call("HEXISTS", KEY.guests, lease[2] .. ":" .. lease[3]) == 1 then
        guests[#guests + 1] = { lease[2], lease[3] }
      end
    end
    answer = { "MAILBOX", found, guests }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
