"""How the engine is set up, as its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from lingua_scheduler.store.embedded.paths import Paths

Durability = Literal["default", "fsync"]

#: `no` writes before each answer and leaves the sync to the guardian; `always` syncs before each answer.
APPENDFSYNC: Final[dict[str, str]] = {"default": "no", "fsync": "always"}


def engine_arguments(paths: Paths, durability: str) -> list[str]:
    """Everything that we count on is said, also where it is the engine's default today."""
    options = {
        "port": "0",
        "unixsocket": str(paths.socket),
        "unixsocketperm": "600",
        "protected-mode": "yes",
        "daemonize": "no",
        "dir": str(paths.data_dir),
        "logfile": str(paths.log),
        "appendonly": "yes",
        "appendfsync": APPENDFSYNC[durability],
        "no-appendfsync-on-rewrite": "no",
        # What kill -9 leaves at the end is half of a command that nobody got an answer for.
        "aof-load-truncated": "yes",
        "aof-use-rdb-preamble": "yes",
        "auto-aof-rewrite-percentage": "100",
        "auto-aof-rewrite-min-size": "64mb",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]
