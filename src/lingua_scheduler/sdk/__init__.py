"""The other end: what a node, or an app, is written with.

It needs `msgspec`, `websockets` and `langcodes`, and nothing else of what the server needs.
"""
