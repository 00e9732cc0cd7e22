"""`lingua demo`: a whole fleet at work on one machine, with nothing set up before.

    lingua demo (begin, play)     callers, written with the client SDK; the screen; the auditor at the end
    ├── lingua serve              a server as everybody runs it, on a port of its own
    │   └── (the embedded engine, under its guardian; in a directory that is gone afterwards)
    └── host, host, …             each runs some of the simulated nodes, written with the node SDK

All of them talk over real sockets. Whoever is started here goes when `lingua demo` goes, however it went: `leash`.
"""
