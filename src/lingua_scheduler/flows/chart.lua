#!lua flags=allow-oom
--[[ chart: how the fleet is in this stretch of time. Of several who say so the last word counts, but the slowest
  dispatch of all of them. A stretch takes the place of the one an hour before.
  KEYS  history
  ARGV  now_ms rules, then for each: point (msgpack, `Point`)
  OUT   CHARTED                                                                                                     ]]
-- include: clock
local now, answers = clock(ARGV[1]), {}
local stretch = math.floor(now / HISTORY.stretch_ms)
local place = stretch % HISTORY.stretches

for i = 3, #ARGV do
  local point = cmsgpack.unpack(ARGV[i])
  local kept = redis.call("HGET", KEY.history, place)
  if kept then
    local then_stretch, last = unpack(cmsgpack.unpack(kept))
    if then_stretch == stretch then
      point[POINT.dispatch_us] = math.max(point[POINT.dispatch_us], last[POINT.dispatch_us])
    end
  end
  redis.call("HSET", KEY.history, place, cmsgpack.pack({ stretch, point }))
  redis.call("PEXPIRE", KEY.history, HISTORY.stretch_ms * HISTORY.stretches)
  answers[#answers + 1] = cmsgpack.pack({ "CHARTED" })
end
return answers
