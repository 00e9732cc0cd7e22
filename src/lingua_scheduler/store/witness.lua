#!lua flags=allow-oom
--[[ witness: a write behind all others. Whoever has it has them, too.
  KEYS  witness
  ARGV  none
  OUT   OK                                                                                                         ]]
return redis.call("SET", KEY.witness, "", "PX", 1000)
