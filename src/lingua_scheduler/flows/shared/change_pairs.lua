-- Change the groups of these pairs, and count by how many groups each source is taken and each target given. Many pairs
-- in a call: a node of 64 languages may bring 4096.
local function change_pairs(served, by, change)
  local ends = {}
  for from = 1, #served, 500 do
    local names, written, gone = { unpack(served, from, math.min(from + 499, #served)) }, {}, {}
    for i, packed in ipairs(redis.call("HMGET", KEY.pairs, unpack(names))) do
      local src, tgt = string.match(names[i], "^(.-):(.+)$")
      local groups = change(packed and cmsgpack.unpack(packed) or {}, tgt)
      if #groups > 0 then
        written[#written + 1] = names[i]
        written[#written + 1] = cmsgpack.pack(groups)
      else
        gone[#gone + 1] = names[i]
      end
      ends[src .. ":"], ends[":" .. tgt] = true, true
    end
    if #written > 0 then
      redis.call("HSET", KEY.pairs, unpack(written))
    end
    if #gone > 0 then
      redis.call("HDEL", KEY.pairs, unpack(gone))
    end
  end
  for name in pairs(ends) do
    if redis.call("HINCRBY", KEY.ends, name, by) == 0 then
      redis.call("HDEL", KEY.ends, name)
    end
  end
end
