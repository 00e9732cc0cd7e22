"""What the Lua scripts know of the records, the states and the causes: text, written out when a script is composed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_origin

import msgspec

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.health import (
    FAILURES,
    FLAP_BASE,
    FLAP_PARTS,
    FLAPS,
    FOR_A_FAILURE,
    FOR_SLOW_ACKS,
    SLOW_ACK_MS,
    WINDOW,
)
from lingua_scheduler.core.history import STRETCH_MS, STRETCHES, Point
from lingua_scheduler.core.job_state import STATES, State, sources_of
from lingua_scheduler.core.letter import CLOSED_MS, Presence
from lingua_scheduler.core.needs import LACKING, LACKS, MARKED, MUTE, PRIVATE
from lingua_scheduler.core.notice import KEPT_MS, LOOKED_BACK, MAX_KEPT, SAME_MS, STANDS, Notice
from lingua_scheduler.core.records import (
    CHOICES,
    DEPARTED_MS,
    FORGET_FROM,
    GONE_FROM,
    HEARD_STEP_MS,
    MAX_CLAIMANTS,
    MAX_FREE,
    MAX_GIVEN,
    MAX_LEAVING,
    MAX_MARKS,
    MAX_PASSED_OVER,
    MAX_REMEMBERED,
    STANDINGS,
    SUSPECTS,
    Bucket,
    Claim,
    Entry,
    Event,
    GroupRecord,
    Guest,
    Home,
    Intent,
    JobRecord,
    Mark,
    Memory,
    NodeRecord,
    Past,
    PastAttempt,
    Profile,
    Record,
    Standing,
    Ticket,
    Way,
    Wishes,
)
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.core.seat import Seat
from lingua_scheduler.core.wanted import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The layout of everything that is kept. A release refuses cells of another number; a changed record needs a new one,
#: and so does an entry that a release before would take for something else.
SCHEMA: Final = 10

#: The longest array whose length msgpack keeps in one byte.
_FIXARRAY: Final = 15


def _lua(value: bool) -> str:
    return str(value).lower()


def _lua_list(names: Iterable[str]) -> str:
    return "({" + ",".join(f'"{name}"' for name in names) + "})"


def _lua_numbers(numbers: Mapping[str, int]) -> str:
    return "({" + ",".join(f'["{name}"]={number}' for name, number in numbers.items()) + "})"


def _lua_causes() -> dict[str, str]:
    counters = _positions(Past)
    causes = {
        cause.name: (
            f'({{name="{cause.name}",limbo={_lua(cause.lease == "limbo")},costs_try={_lua(cause.costs_try)}'
            f",blames={_lua(cause.blames)}" + (f",counts={counters[cause.counts]}" if cause.counts else "") + "})"
        )
        for cause in CAUSES
    }
    return causes | {"named": "({" + ",".join(f"{name}={cause}" for name, cause in causes.items()) + "})"}


def _positions(record: type[Record]) -> dict[str, int]:
    return {field.name: number for number, field in enumerate(msgspec.structs.fields(record), start=1)}


def _blank(record: type[Record]) -> str:
    """A Lua constructor for a record of which nothing is known yet: every place filled, so that it stays an array."""
    blanks = {int: "0", str: '""', State: '""', Past: "{}"}
    types = [field.type for field in msgspec.structs.fields(record)]
    values = [blanks.get(kind) or ("{}" if get_origin(kind) is list else "false") for kind in types]
    return "{" + ",".join(values) + "}"


def _table(record: type[Record]) -> dict[str, str]:
    """The position of each field, and how many bytes are before the first: what Lua needs to read only some."""
    positions = _positions(record)
    header = 1 if len(positions) <= _FIXARRAY else 3
    return {name: str(position) for name, position in positions.items()} | {"header": str(header)}


_RECORDS: Final[dict[str, type[Record]]] = {
    "JOB": JobRecord,
    "PAST": Past,
    "PAST_ATTEMPT": PastAttempt,
    "TICKET": Ticket,
    "WISHES": Wishes,
    "WAY": Way,
    "GUEST": Guest,
    "NODE": NodeRecord,
    "INTENT": Intent,
    "HOME": Home,
    "PROFILE": Profile,
    "MARK": Mark,
    "GROUP": GroupRecord,
    "EVENT": Event,
    "CLAIM": Claim,
    "MEMORY": Memory,
    "ENTRY": Entry,
    "BUCKET": Bucket,
    "RULE": Rules,
}

#: What the Lua sources call `JOB.state`, `NEW.job`, `CAUSE.lost`, …, and what is written out in its place.
TABLES: Final[dict[str, dict[str, str]]] = {
    **{name: _table(record) for name, record in _RECORDS.items()},
    "NEW": {name.lower(): _blank(record) for name, record in _RECORDS.items()},
    "STANDING": {standing.name: str(standing.value) for standing in Standing}
    | {"count": str(STANDINGS), "last": str(max(Standing)), "names": _lua_list(standing.name for standing in Standing)},
    "LACK": {
        "count": str(LACKS),
        "bits": str(LACKS.bit_length() - 1),
        "mute": str(MUTE),
        "private": str(PRIVATE),
        "marked": str(sum(MARKED.values())),
        "services": _lua_numbers(LACKING),
        "marks": _lua_numbers(MARKED | {"": sum(MARKED.values())}),
    },
    "SUSPICION": {"window": str(2**WINDOW), "failures": str(FAILURES)},
    "FLAPS": {"most": str(FLAPS)},
    "GONE": {"parts": str(FLAP_PARTS), "base": str(FLAP_BASE)},
    "HEALTH": {
        "failure": str(FOR_A_FAILURE),
        "slow_acks": str(FOR_SLOW_ACKS),
        "slow_ack_ms": str(SLOW_ACK_MS),
    },
    "CHOICE": {"count": str(CHOICES), "group": str(CHOICES * SUSPECTS)},
    "ROOM": {"suspect": str(SUSPECTS)},
    "REMEMBERED": {"most": str(MAX_REMEMBERED)},
    "FREE": {"most": str(MAX_FREE)},
    "GIVEN": {"most": str(MAX_GIVEN)},
    "MARKS": {"most": str(MAX_MARKS)},
    "POLICY": {policy.name: str(policy.value) for policy in Policy},
    "CAUSE": _lua_causes(),
    "DUE": {"forget": str(FORGET_FROM), "gone": str(GONE_FROM)},
    "MADE_ROOM": {"most": str(MAX_LEAVING), "passed_over": str(MAX_PASSED_OVER)},
    "DEPARTED": {"ms": str(DEPARTED_MS)},
    "HEARD": {"step_ms": str(HEARD_STEP_MS)},
    "CLAIMANTS": {"most": str(MAX_CLAIMANTS)},
    # Whoever is there says it anew every few seconds: it is no part of the layout of what is kept.
    "PRESENCE": {name: str(position) for name, position in _positions(Presence).items()},
    # An hour of curves: whoever changes its shape has none for an hour.
    "POINT": {name: str(position) for name, position in _positions(Point).items()},
    "HISTORY": {"stretch_ms": str(STRETCH_MS), "stretches": str(STRETCHES)},
    # What people read for a week: nothing that happens depends on it.
    "NOTICE": {name: str(position) for name, position in _positions(Notice).items()},
    # Whoever is signed in, for a day at most.
    "SEAT": {name: str(position) for name, position in _positions(Seat).items()},
    "NOTICES": {
        "most": str(MAX_KEPT),
        "kept_ms": str(KEPT_MS),
        "same_ms": str(SAME_MS),
        "looked_back": str(LOOKED_BACK),
        "stands": "({" + ",".join(f"{kind}=true" for kind in STANDS) + "})",
    },
    "INBOX": {"group": '"readers"', "closed_ms": str(CLOSED_MS)},
    "SOURCES": {state: "({" + ",".join(f"{source}=true" for source in sources_of(state)) + "})" for state in STATES},
}
