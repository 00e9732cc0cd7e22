"""The chaos suite: a whole fleet on real sockets, somebody who breaks things, and a proof that nothing was lost.

`./dev chaos --help`; docs/chaos.md tells what is proved and how to read a story.
"""
