#!lua flags=no-writes
--[[ session: whose a session is, and who holds it.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { }
  OUT   SESSION principal next owner | INVALID_SESSION                    (owner "" = there is nothing to take over) ]]
local answers = {}

for _ = 3, #ARGV do
  local packed, answer = redis.call("GET", KEY.entry), { "INVALID_SESSION" }
  if packed then
    local entry = cmsgpack.unpack(packed)
    local owner = redis.call("HGET", KEY.session, "owner")
    answer = { "SESSION", entry[ENTRY.principal], entry[ENTRY.next], owner or "" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
