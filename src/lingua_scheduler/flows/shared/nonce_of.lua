-- What a node's record says of its connection: enough to tell it from any other, "" if there is none.             pure
local function nonce_of(connection)
  return string.sub(connection, -8)
end
