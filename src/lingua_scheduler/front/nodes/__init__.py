"""The nodes' door: their sockets, what they say, and what they are told."""
