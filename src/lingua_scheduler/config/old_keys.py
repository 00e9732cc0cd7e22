"""The first scheduler's `config.toml`: every key it had, and where each one went.

Such a file loads as it is, with one line of deprecation for each old key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


_CLUSTER_URL: Final = re.compile(r"redis://(?P<user>[^/]*@)?(?P<host>[^/@,]+)/?")


def _same(value: object) -> object:
    return value


def _seconds(value: object) -> object:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number of seconds")  # noqa: TRY004  # a wrong file, not a wrong call
    return value * 1000


def _cluster(value: object) -> object:
    if not isinstance(value, list) or not value or not all(isinstance(url, str) for url in value):
        raise ValueError("must be a list of URLs")
    # Not `urlsplit`: its errors show the URL, and with it the password.
    found = [_CLUSTER_URL.fullmatch(url) for url in value]
    users = {url["user"] for url in found if url}
    if None in found or len(users) != 1:
        raise ValueError("must be a list of redis://host:port URLs with one user and password")
    return f"redis+cluster://{users.pop() or ''}{','.join(url['host'] for url in found if url)}"


@dataclass(frozen=True, slots=True)
class OldKey:
    """One key of the old file: our key and the way there, or why it does nothing."""

    key: str
    now: str = ""
    convert: Callable[[object], object] = _same
    why: str = ""

    @property
    def fate(self) -> str:
        """What became of it, as the end of a sentence."""
        return f"now {self.now}" if self.now else f"no effect: {self.why}"


OLD_KEYS: Final[dict[str, OldKey]] = {
    old.key: old
    for old in (
        OldKey("scheduler.phase2.enabled", why="there is always a state engine"),
        OldKey("scheduler.phase2.instance_id", "instance.id"),
        OldKey("scheduler.phase2.redis_url", "engine.url"),
        OldKey("scheduler.phase2.redis.url", "engine.url"),
        OldKey("scheduler.phase2.redis.cluster_urls", "engine.url", _cluster),
        OldKey("scheduler.phase2.key_prefix", "engine.key_prefix"),
        OldKey("scheduler.phase2.heartbeat_ttl_seconds", "nodes.offline_ms", _seconds),
        OldKey("scheduler.phase2.owner_ttl_seconds", why="who holds a socket is known by the name of its connection"),
        OldKey("scheduler.phase2.stream_block_ms", "instance.inbox_block_ms"),
    )
}
