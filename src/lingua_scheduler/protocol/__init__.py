"""What travels: the messages of the wire contract as structs, and the codec that reads and writes them.

Pure, and built on `core` alone, so that both ends can share it. Unknown fields are ignored. A field that may be left
out may also be `null`; when it is written it is left out, unless the contract says that it is sent as `null`.
"""
