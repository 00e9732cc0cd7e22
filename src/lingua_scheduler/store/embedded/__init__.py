"""The embedded state engine: a real valkey-server that several processes share, and that goes when they go.

Who is there. A *user* is a process that holds an `Embedded`. The *guardian* is a small process of nobody's
session that owns the *engine* (valkey-server) as its child. All that they know of each other is in the data
directory, and all that they must agree on is a lock (`flock`) there, because the kernel drops a lock with
the last process that holds it, however that process went:

    users.lock      shared, by each user for its lifetime; exclusive, by a guardian that is leaving
    guardian.lock   exclusive, for the guardian's lifetime
    engine.lock     exclusive, by the engine and the children it forks; the file says their process group

Starting. A user takes users.lock (shared) and then tries guardian.lock. If it gets it, there is no
guardian, and it starts one and hands it the very lock that it got: an flock belongs to the open file, and a
child that inherits the open file inherits the lock. So there is no moment between "nobody has it" and "my
guardian has it", and there are never two guardians. Every user tries guardian.lock again four times a
second: that is how a guardian that was killed is replaced.

Leaving. Five times a second the guardian tries users.lock (exclusive). It gets it only when no user is
left, and from then on it keeps it: it stops the engine, removes the socket, lets go of guardian.lock, then
of users.lock. A user who comes at that moment waits for users.lock, finds guardian.lock free and starts
anew. A user who has users.lock before the guardian tries it keeps the guardian from leaving. There is no
third case.

One engine. An engine dies with its guardian (PR_SET_PDEATHSIG), but not at once: it may hang in a write to
a slow disk, and a child that rewrites the AOF may outlive it for a while. So a guardian starts an engine only
with engine.lock in its hand, and kills the process group that the file names while somebody else holds it.
The number cannot belong to a stranger: who holds the lock is in that group, so the group still exists.

Acknowledged means written. The engine runs with `appendfsync no`: it writes each command to the AOF before
it answers, and a write survives the death of the writer. The guardian syncs the file once a second for the
case that the power goes. (`everysec` answers before it writes while a sync is running, so it loses answers
on a slow disk.) A full disk is the exception: what is answered in the turn in which a write first fails is in
memory only until there is room, and from then on writes are refused with MISCONF.

Where there is no PR_SET_PDEATHSIG (macOS), an engine whose guardian was killed goes on serving until a
user's new guardian replaces it; if no user was left either, it stays until the data directory is used
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua_scheduler.store.embedded.binary import find_binary
    from lingua_scheduler.store.embedded.user import Embedded

__all__ = ["Embedded", "find_binary"]


def __getattr__(name: str) -> object:
    # Late, because the guardian comes through here too, and must not wait for asyncio to be imported.
    if name == "Embedded":
        from lingua_scheduler.store.embedded.user import Embedded  # noqa: PLC0415

        return Embedded
    if name == "find_binary":
        from lingua_scheduler.store.embedded.binary import find_binary  # noqa: PLC0415

        return find_binary
    raise AttributeError(name)
