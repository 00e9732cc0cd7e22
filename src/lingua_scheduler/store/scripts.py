"""Scripts, composed from files: `flows/ack.lua` with its includes and the tables that Python shares with Lua.

A line `-- include: settle, place` brings in `flows/shared/settle.lua` and `place.lua` with what they include
themselves. At the left margin it brings them in once for the rest of the script; inside a block only for that
block, so that a rare branch costs the usual call nothing (a closure costs 0.1 µs each time a script runs).

`JOB.state`, `NODE.epoch`, `KEY.jobs`, `SOURCES.ACCEPTED` are written out as literals: field numbers, declared
keys and the table of legal moves are never copied by hand.
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from lingua_scheduler.store.keys import CELL_KEY_NAMES, OUTSIDE_KEY_NAMES
from lingua_scheduler.store.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[str], str]

_INCLUDE: Final = re.compile(r"^(?P<indent>[ \t]*)-- include: (?P<names>.+)$")
_BLOCK_COMMENT: Final = re.compile(r"--\[\[.*?\]\]", re.DOTALL)
_LINE_COMMENT: Final = re.compile(r"(^|\s)--(?!\[\[)(?! include:).*$", re.MULTILINE)
_CONSTANT: Final = re.compile(r"\b([A-Z_]+)\.([A-Za-z_]+)\b")

#: The order in which the calls of one tick go out. A `done` must not overtake its own `ack`, nor be overtaken by its
#: node's last words or by a cancel; a dispatch comes when what frees a slot has freed it, and a cancel behind that: it
#: may be of the very job that is asked for. What is not named here goes before all of these.
ORDER: Final = (
    "deliver",
    "undeliver",
    "ack",
    "started",
    "stopped",
    "done",
    "fail",
    "heartbeat",
    "register",
    "disconnect",
    "leave",
    "drain",
    "resume",
    "evict",
    "limit",
    "release",
    "dispatch",
    "cancel",
)

#: Flows that may have much to do for one item (a node with all its slots, a list, a portion of what is due) are folded
#: only so far, whatever the engine's client may fold: between two runs the engine serves others. A walk along the jobs
#: reads a hundred records.
MOST: Final = dict.fromkeys(
    ("register", "heartbeat", "disconnect", "leave", "evict", "mark", "reap", "assign_home", "enter_homes", "route"), 8
) | {"jobs": 1}


#: Flows whose answer is a promise: whoever hears it counts on it, also if the server that gave it dies. That a job is
#: accepted is promised by whoever placed it: its node need not wait for that.
PROMISES: Final = frozenset(("claim", "done", "fail", "cancel", "drain", "resume", "evict", "limit", "bury"))


@dataclass(frozen=True, slots=True)
class Script:
    """One composed script, ready to be called by its SHA-1."""

    name: str
    source: str
    sha: str
    keys: tuple[str, ...]
    rank: int
    #: How many items one run may have; the engine's client has a bound for all scripts too.
    most: int = sys.maxsize
    #: Whether its answer is a promise.
    promises: bool = False

    @property
    def reads_only(self) -> bool:
        """Whether it can change nothing, by its flags."""
        return "no-writes" in self.source.partition("\n")[0]

    def line(self, number: int) -> str:
        """The composed line that an error message of the engine names."""
        lines = self.source.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _bare(text: str) -> str:
    text = _LINE_COMMENT.sub("", _BLOCK_COMMENT.sub("", text))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


class _Composer:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._margin: set[str] = set()

    def compose(self, path: str) -> str:
        first, rest = self._read(path).split("\n", 1)
        if not first.startswith("#!lua"):
            raise ValueError(f"{path}.lua must begin with #!lua and its flags")
        return first + "\n" + self._expand(_bare(rest), self._margin, "")

    def _expand(self, text: str, seen: set[str], indent: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            found = _INCLUDE.match(line)
            if not found:
                out.append(indent + line)
                continue
            inner = found["indent"]
            scope = seen if not inner else set(seen)
            for name in (part.strip() for part in found["names"].split(",")):
                if name not in scope:
                    scope.add(name)
                    body = _bare(self._read(f"flows/shared/{name}"))
                    out.append(self._expand(body, scope, indent + inner))
        return "\n".join(out)


def compose(path: str, read: Read) -> Script:
    """Compose `<path>.lua`, with `read` giving each file's text; a name that no table knows is an error here."""
    keys: list[str] = []

    def literal(match: re.Match[str]) -> str:
        table, field = match.groups()
        if table == "KEY":
            if field not in CELL_KEY_NAMES and field not in OUTSIDE_KEY_NAMES:
                raise ValueError(f"{path}.lua: there is no key {field!r}")
            if field not in keys:
                keys.append(field)
            return f"KEYS[{keys.index(field) + 1}]"
        if table not in TABLES:
            raise ValueError(f"{path}.lua: there is no table {table!r}")
        if field not in TABLES[table]:
            raise ValueError(f"{path}.lua: {table} has no {field!r}")
        return TABLES[table][field]

    source = _CONSTANT.sub(literal, _Composer(read).compose(path)) + "\n"
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    name = path.rsplit("/", 1)[-1]
    rank = ORDER.index(name) if name in ORDER else -1
    return Script(name, source, sha, tuple(keys), rank, MOST.get(name, sys.maxsize), name in PROMISES)


def read_packaged(path: str) -> str:
    """The text of `<path>.lua` as this release ships it."""
    return (files("lingua_scheduler") / f"{path}.lua").read_text(encoding="utf-8")


@functools.cache
def script(path: str) -> Script:
    """The script `flows/ack` (or `views/audit`, …) of this release, composed once."""
    return compose(path, read_packaged)
