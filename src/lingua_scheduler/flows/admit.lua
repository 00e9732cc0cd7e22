#!lua
--[[ admit: one more, if a bucket has tokens for it. A bucket that nobody knows is full, and a full one is forgotten.
  KEYS  bucket
  ARGV  now_ms rules, then for each: { rate burst cost }                                        (rate: tokens a second)
  OUT   ADMITTED | RATE_LIMITED retry_after_ms                                                                      ]]
-- include: clock, take_tokens
local now, answers = clock(ARGV[1]), {}

for i = 3, #ARGV do
  local rate, burst, cost = unpack(cmsgpack.unpack(ARGV[i]))
  local packed = redis.call("GET", KEY.bucket)
  local bucket = packed and cmsgpack.unpack(packed) or NEW.bucket
  local left, wait_ms = take_tokens(bucket[BUCKET.tokens], bucket[BUCKET.at_ms], now, rate, burst, cost)
  local answer = { "RATE_LIMITED", wait_ms }
  if left then
    bucket[BUCKET.tokens], bucket[BUCKET.at_ms] = left, now
    redis.call("SET", KEY.bucket, cmsgpack.pack(bucket), "PX", math.ceil((burst * 1000 - left) / rate))
    answer = { "ADMITTED" }
  end
  answers[#answers + 1] = cmsgpack.pack(answer)
end
return answers
