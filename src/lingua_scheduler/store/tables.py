"""What the Lua scripts know of the records, the states and the causes: text, written out when a script is composed."""

from __future__ import annotations

from typing import Final, get_origin

import msgspec

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import STATES, State, sources_of
from lingua_scheduler.core.records import (
    FORGET_FROM,
    HEARD_STEP_MS,
    MAX_CLAIMANTS,
    STANDINGS,
    Claim,
    Event,
    GroupRecord,
    JobRecord,
    NodeRecord,
    Past,
    PastAttempt,
    Profile,
    Record,
    Rules,
    Standing,
    Ticket,
)

#: The layout of everything that is kept. A release refuses cells of another number; a changed record needs a new one.
SCHEMA: Final = 1

#: The longest array whose length msgpack keeps in one byte.
_FIXARRAY: Final = 15


def _lua(value: bool) -> str:
    return str(value).lower()


def _lua_causes() -> dict[str, str]:
    counters = _positions(Past)
    return {
        cause.name: (
            f'({{name="{cause.name}",limbo={_lua(cause.lease == "limbo")},costs_try={_lua(cause.costs_try)}'
            + (f",counts={counters[cause.counts]}" if cause.counts else "")
            + "})"
        )
        for cause in CAUSES
    }


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
    "NODE": NodeRecord,
    "PROFILE": Profile,
    "GROUP": GroupRecord,
    "EVENT": Event,
    "CLAIM": Claim,
    "RULE": Rules,
}

#: What the Lua sources call `JOB.state`, `NEW.job`, `CAUSE.lost`, …, and what is written out in its place.
TABLES: Final[dict[str, dict[str, str]]] = {
    **{name: _table(record) for name, record in _RECORDS.items()},
    "NEW": {name.lower(): _blank(record) for name, record in _RECORDS.items()},
    "STANDING": {standing.name: str(standing.value) for standing in Standing}
    | {"count": str(STANDINGS), "last": str(max(Standing))},
    "CAUSE": _lua_causes(),
    "DUE": {"forget": str(FORGET_FROM)},
    "HEARD": {"step_ms": str(HEARD_STEP_MS)},
    "CLAIMANTS": {"most": str(MAX_CLAIMANTS)},
    "SOURCES": {state: "({" + ",".join(f"{source}=true" for source in sources_of(state)) + "})" for state in STATES},
}
