"""A cell as a value: read from the engine, moved in time, put back. One pipelined round trip for many of them.

Every snapshot is taken at the same moment: when time has passed, all that it holds is moved back by as much. Scripts
only ever compare times (and count tenths of the window for flaps, of which a tick is a whole number), so nothing
notices, and two cells that differ in nothing but the date are equal.
"""

from __future__ import annotations

import functools
import socket
from typing import TYPE_CHECKING, Any, Final, TypeVar

import hiredis
import msgspec

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.records import (
    Event,
    GroupRecord,
    Guest,
    Intent,
    JobRecord,
    NodeRecord,
    Past,
    PastAttempt,
    Profile,
    Record,
    Ticket,
    Way,
)
from lingua_scheduler.store.keys import CELL_KEYS, cell_key
from lingua_scheduler.store.resp import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingua_scheduler.store.scripts import Script

CELL: Final = "c0"
NOW_MS: Final = 1_000_000_000_000

#: Each key of `CELL_KEYS` as the engine lists it: field, value, field, value … or member, score, …
Raw = tuple[tuple[bytes, ...], ...]

EMPTY: Final[Raw] = ((),) * len(CELL_KEYS)

R = TypeVar("R", bound=Record)

_NAMES: Final = [key.name for key in CELL_KEYS]
_TYPES: Final = {key.name: key.type for key in CELL_KEYS}


def _times(record: type[Record]) -> list[int]:
    """Where a record keeps moments. Lengths of time end in `_ms` alone."""
    names = [field.name for field in msgspec.structs.fields(record)]
    return [place for place, name in enumerate(names) if name.endswith(("_at_ms", "_until_ms"))]


_JOB_TIMES, _PAST_TIMES, _NODE_TIMES = _times(JobRecord), _times(Past), _times(NodeRecord)
_ATTEMPT_TIMES, _PROFILE_TIMES = _times(PastAttempt), _times(Profile)
_PAST: Final = JobRecord.__struct_fields__.index("past")
_ATTEMPTS: Final = Past.__struct_fields__.index("attempts")


def _move(values: list[Any], times: Iterable[int], by_ms: int) -> None:
    for place in times:
        if values[place] > 0:
            values[place] -= by_ms


def _moved_job(field: bytes, packed: bytes, by_ms: int) -> bytes:
    if b":" in field:
        return packed
    job = msgspec.msgpack.decode(packed)
    _move(job, _JOB_TIMES, by_ms)
    if job[_PAST]:
        _move(job[_PAST], _PAST_TIMES, by_ms)
        for attempt in job[_PAST][_ATTEMPTS]:
            _move(attempt, _ATTEMPT_TIMES, by_ms)
    return msgspec.msgpack.encode(job)


def _moved_record(_: bytes, packed: bytes, by_ms: int, times: Sequence[int]) -> bytes:
    record = msgspec.msgpack.decode(packed)
    _move(record, times, by_ms)
    return msgspec.msgpack.encode(record)


def _moved_place(place: bytes, by_ms: int) -> bytes:
    need, deadline, job_id = place.rsplit(b":", 2)
    return b"%b:%015d:%b" % (need, int(deadline) - by_ms, job_id)


def _moved_number(_: bytes, number: bytes, by_ms: int) -> bytes:
    return b"%d" % (int(number) - by_ms)


_MOVERS: Final[dict[str, Callable[[bytes, bytes, int], bytes]]] = {
    "jobs": _moved_job,
    "nodes": functools.partial(_moved_record, times=_NODE_TIMES),
    "profiles": functools.partial(_moved_record, times=_PROFILE_TIMES),
    "limbo": _moved_number,
    "due": _moved_number,
}


def moved_back(raw: Raw, by_ms: int) -> Raw:
    """The same cell, all its moments `by_ms` earlier. The outbox is left as it is: a step empties it."""
    out = list(raw)
    queue = _NAMES.index("queue")
    out[queue] = tuple(part if place % 2 else _moved_place(part, by_ms) for place, part in enumerate(raw[queue]))
    for number, name in enumerate(_NAMES):
        if name in _MOVERS:
            move = _MOVERS[name]
            pairs = zip(raw[number][::2], raw[number][1::2], strict=True)
            out[number] = tuple(part for field, value in pairs for part in (field, move(field, value, by_ms)))
    return tuple(out)


def cell_of(raw: Raw) -> Cell:
    """What the auditor judges."""
    content = {name: list(zip(flat[::2], flat[1::2], strict=True)) for name, flat in zip(_NAMES, raw, strict=True)}
    jobs: dict[bytes, list[tuple[bytes, bytes]]] = {b"": [], b"ticket": [], b"payload": [], b"result": [], b"way": []}
    for field, value in content["jobs"]:
        job_id, _, part = field.partition(b":")
        jobs[part].append((job_id, value))
    return Cell(
        now_ms=NOW_MS,
        nodes={key.decode(): _decode(value, NodeRecord) for key, value in content["nodes"]},
        profiles={key.decode(): _decode(value, Profile) for key, value in content["profiles"]},
        standing={key.decode(): int(value) for key, value in content["standing"]},
        room={int(key): int(value) for key, value in content["room"]},
        groups={int(key): _decode(value, GroupRecord) for key, value in content["groups"]},
        signatures={key.decode(): int(value) for key, value in content["signatures"]},
        pairs={key.decode(): msgspec.msgpack.decode(value) for key, value in content["pairs"]},
        ends={key.decode(): int(value) for key, value in content["ends"]},
        intents={key.decode(): _decode(value, Intent) for key, value in content["intents"]},
        departed={key.decode(): int(value) for key, value in content["departed"]},
        jobs={key.decode(): _decode(value, JobRecord) for key, value in jobs[b""]},
        tickets={key.decode(): _decode(value, Ticket) for key, value in jobs[b"ticket"]},
        ways={key.decode(): _decode(value, Way) for key, value in jobs[b"way"]},
        bodies={
            f"{key.decode()}:{part}": value.decode()
            for part in ("payload", "result")
            for key, value in jobs[part.encode()]
        },
        guests={key.decode(): _decode(value, Guest) for key, value in content["guests"]},
        leases=[key.decode() for key, _ in content["leases"]],
        limbo={key.decode(): int(value) for key, value in content["limbo"]},
        queue=[key.decode() for key, _ in content["queue"]],
        due={key.decode(): int(value) for key, value in content["due"]},
        outbox=[(_decode(key, Event), int(value)) for key, value in content["outbox"]],
        counts={key.decode(): int(value) for key, value in content["counts"]},
    )


@functools.lru_cache(maxsize=1 << 16)
def _decode(packed: bytes, record: type[R]) -> R:
    return msgspec.msgpack.decode(packed, type=record)


class Bench:
    """An engine on which cells are put, worked on and read, in one write for many."""

    def __init__(self, path: str, prefix: str, rules: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._reader = hiredis.Reader()
        self._keys = {name: cell_key(prefix, CELL, name) for name in _NAMES}
        self._rules = rules
        self._clean = encode("DEL", *self._keys.values())
        self._read = b"".join(
            encode("HGETALL", key) if _TYPES[name] == "hash" else encode("ZRANGE", key, 0, -1, "WITHSCORES")
            for name, key in self._keys.items()
        )
        self._scripts: dict[str, Script] = {}

    def close(self) -> None:
        self._socket.sendall(self._clean)
        self._replies(1)
        self._socket.close()

    def load(self, scripts: Iterable[Script]) -> None:
        for script in scripts:
            self._scripts[script.name] = script
            self._socket.sendall(encode("SCRIPT", "LOAD", script.source))
            (answer,) = self._replies(1)
            assert answer == script.sha.encode(), answer

    @functools.lru_cache(maxsize=1 << 14)  # noqa: B019 - a bench lives as long as its search
    def call(self, flow: str, parts: tuple[bytes, ...], at_ms: int) -> bytes:
        """The bytes of one script's call with one item."""
        script = self._scripts[flow]
        keys = [self._keys[name] for name in script.keys]
        return encode("EVALSHA", script.sha, len(keys), *keys, at_ms, self._rules, *parts)

    def put(self, raw: Raw) -> tuple[bytes, int]:
        """The bytes that make the cell what it was, with an empty outbox, and how many replies they bring."""
        commands = [self._clean]
        for name, flat in zip(_NAMES, raw, strict=True):
            if not flat or name == "outbox":
                continue
            if _TYPES[name] == "hash":
                commands.append(encode("HSET", self._keys[name], *flat))
            else:
                swapped = [
                    part for member, score in zip(flat[::2], flat[1::2], strict=True) for part in (score, member)
                ]
                commands.append(encode("ZADD", self._keys[name], *swapped))
        return b"".join(commands), len(commands)

    def send(self, put: bytes, calls: Sequence[bytes]) -> None:
        """Make the cell and work on it, once for each call."""
        self._socket.sendall(b"".join([part for call in calls for part in (put, call, self._read)]))

    def answers(self, puts: int, calls: Sequence[bytes]) -> list[tuple[Any, Raw]]:
        """What each call answered, if there was one, and the cell after it."""
        found: list[tuple[Any, Raw]] = []
        for call in calls:
            replies = self._replies(puts + bool(call) + len(_NAMES))[puts:]
            answer = replies.pop(0) if call else None
            found.append((answer, tuple(map(tuple, replies))))
        return found

    def _replies(self, number: int) -> list[Any]:
        replies: list[Any] = []
        while len(replies) < number:
            reply = self._reader.gets()
            if reply is False:
                data = self._socket.recv(1 << 18)
                if not data:
                    raise ConnectionError("the engine is gone")
                self._reader.feed(data)
            else:
                replies.append(reply)
        return replies
