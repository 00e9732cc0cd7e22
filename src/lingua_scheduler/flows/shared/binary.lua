-- Bytes as msgpack has them (cmsgpack only knows text, which must be UTF-8 for whoever reads it).
local function binary(bytes)
  return "\198" .. struct.pack(">I4", #bytes) .. bytes
end
