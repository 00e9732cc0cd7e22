#!lua flags=no-writes
--[[ rights: which commands this user may not give on the cell's keys.
  ARGV  now_ms rules, then for each: { command }                                 (one of several: `COMMAND|ONE`)
  OUT   DENIED { command }                                                                                         ]]
local answers = {}

for i = 3, #ARGV do
  local denied = {}
  for _, command in ipairs(cmsgpack.unpack(ARGV[i])) do
    local name, one = string.match(command, "^([^|]+)|?(.*)$")
    if not redis.acl_check_cmd(name, one ~= "" and one or KEY.nodes, KEY.nodes, KEY.nodes) then
      denied[#denied + 1] = command
    end
  end
  answers[#answers + 1] = cmsgpack.pack({ "DENIED", denied })
end
return answers
