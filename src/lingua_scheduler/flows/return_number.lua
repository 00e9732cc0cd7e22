#!lua flags=allow-oom
--[[ return_number: the utterance that was to have this number was refused: it can be given again. Whoever takes the
  session over does not hear of its job.
  KEYS  entry · session
  ARGV  now_ms rules, then for each: { principal utterance }
  OUT   RETURNED | INVALID_SESSION                        (not this principal's, or its time is over)              ]]
-- include: stretch_of, set_free, put_entry, forget_given
local answers = {}

for i = 3, #ARGV do
  local principal, utterance = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.entry)
  local entry = packed and cmsgpack.unpack(packed)
  local answer = { "INVALID_SESSION" }
  if entry and entry[ENTRY.principal] == principal then
    if utterance < entry[ENTRY.next] and not stretch_of(entry[ENTRY.free], utterance) then
      set_free(entry, utterance, utterance)
      put_entry(entry, 1)
      forget_given(utterance)
    end
    answer = { "RETURNED" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
