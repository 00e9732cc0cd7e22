"""Keys that the original scheduler left under the same prefix: found by SCAN, removed by UNLINK, never one of ours.

Ours have a hash tag right behind the prefix, and the tags of the two are different ones. Whoever gave another fleet a
longer prefix (`lingua:v1:node`) has keys that look like the original's from here; their tags and names tell them.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lingua_scheduler.store.keys import CELL_KEY_NAMES, GUARD, OUTSIDE_KEY_NAMES, TAG_KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.store.engine import Engine

#: How many keys the engine looks at in one call; as many are removed with one write.
COUNT: Final = 500

#: What stands behind the prefix in keys of the original, by kind. `<…>` is whatever it was.
KINDS: Final[dict[str, re.Pattern[bytes]]] = {
    kind: re.compile(re.sub(r"<\w+>", ".+", re.escape(kind)).encode(), re.DOTALL)
    for kind in (
        "nodes:all",
        "nodes:last_seen",
        "nodes:owner:<node>",
        "node:<node>:pools",
        "node:<node>",
        "pool:<pool>:nodes",
        "job:<job>",
        "sessions:owner:<session>",
        "schedulers:presence:<instance>",
        "streams:<instance>:inbox",
        "{session:<session>}:<key>",
        "{job:<job>}:<key>",
        "{node:<node>}:<key>",
    )
}

#: Kept alive by an original scheduler that runs.
PRESENCE: Final = "schedulers:presence:<instance>"

_NAMES: Final = "|".join((*CELL_KEY_NAMES, *OUTSIDE_KEY_NAMES, GUARD))
_OURS: Final = re.compile(
    rf".*:\{{(?:[a-z][a-z0-9]{{0,15}}|(?:{'|'.join(TAG_KINDS)}):.*)\}}:(?:{_NAMES})".encode(), re.DOTALL
)
_CELL: Final = re.compile(rb"\{([a-z][a-z0-9]{0,15})\}:(?:" + "|".join(CELL_KEY_NAMES).encode() + rb")")
_TAG: Final = re.compile(rb"\{([^}]+)\}")


@dataclass(slots=True)
class Under:
    """What was found under a prefix: cells of ours, and how many keys of the original of each kind."""

    cells: set[str] = field(default_factory=set)
    old: Counter[str] = field(default_factory=Counter)


def kind_of(prefix: str, key: bytes) -> str | None:
    """Which key of the original this is; None if it is none."""
    begin = f"{prefix}:".encode()
    if not key.startswith(begin) or _OURS.fullmatch(key):
        return None
    rest = key[len(begin) :]
    return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(rest)), None)


async def look_under(engine: Engine, cell: str) -> Under:
    """Walk through the keys under the prefix, of every primary. Any of our cells helps to find the primaries."""
    found, behind = Under(), len(engine.prefix) + 1
    async for keys in _pages(engine, cell):
        found.old.update(kind for key in keys if (kind := kind_of(engine.prefix, key)))
        found.cells.update(match[1].decode() for key in keys if (match := _CELL.fullmatch(key[behind:])))
    return found


async def remove_old(engine: Engine, cell: str) -> int:
    """Remove what the original left; how many keys that were."""
    removed = 0
    async for keys in _pages(engine, cell):
        old = [key for key in keys if kind_of(engine.prefix, key)]
        # One by one, in one write: on a Cluster they have a slot each.
        removed += sum(await asyncio.gather(*(engine.command("UNLINK", key, cell=_tag(key)) for key in old)))
    return removed


async def _pages(engine: Engine, cell: str) -> AsyncIterator[list[bytes]]:
    for each in engine.one_cell_each(cell).values():
        cursor = b"0"
        while True:
            words = ("SCAN", cursor, "MATCH", f"{engine.prefix}:*", "COUNT", COUNT)
            cursor, keys = await engine.command(*words, cell=each)
            yield keys
            if cursor == b"0":
                break


def _tag(key: bytes) -> str:
    """What names the slot of a key: its hash tag, else all of it."""
    found = _TAG.search(key)
    return (found[1] if found else key).decode(errors="replace")
