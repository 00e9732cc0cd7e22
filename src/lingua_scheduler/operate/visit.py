"""`lingua doctor --url`: a look at a running scheduler, from wherever an operator is."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.operate.ask import NotAnswered
from lingua_scheduler.store.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.operate.ask import Operator

#: A clock that differs by more makes times hard to read.
_CLOCKS_MS: Final = 1_000
_REACH_FIX: Final = "see that it runs and can be reached from here, and that --url (LINGUA_URL) and --token name it"
#: It answered, and refused with such a code.
_REFUSED_FIXES: Final = {
    "UNAUTHENTICATED": "give the operator's token: --token or LINGUA_TOKEN",
    "FORBIDDEN": "give a token with the scope admin (--token, LINGUA_TOKEN), and in --url a name that it knows",
}
_LATER_FIX: Final = "look again; if it stays so, see its log"
_READY_FIX: Final = "run `lingua doctor` on its machine: it looks at the state engine"
_VERSIONS_FIX: Final = "let the rolling upgrade end: the others are to be started anew"
_CLOCK_FIX: Final = "let both machines keep their time by NTP"


def visit(asked: Operator) -> Iterator[Finding]:
    """Whether it answers, can serve, and what it says of the fleet, in its own words."""
    where = asked.where
    try:
        stats = asked.stats()
    except NotAnswered as error:
        how = "answers, but does not let us look" if error.code else "does not answer"
        fix = _REFUSED_FIXES.get(error.code, _LATER_FIX) if error.code else _REACH_FIX
        yield Finding("scheduler", Level.UNFIT, f"{how} ({error})", where, fix)
        return
    yield Finding("scheduler", Level.OK, "answers", where)
    try:
        asked.ready()
        yield Finding("ready", Level.OK, "can serve", where)
    except LinguaError as error:
        yield Finding("ready", Level.UNFIT, f"cannot serve ({error})", where, _READY_FIX)
    for problem in stats["health"]["problems"]:
        yield Finding("fleet", Level.WARNING, f"says: {problem}", where, f"{where}/dashboard")
    if stats["health"]["ok"]:
        yield Finding("fleet", Level.OK, "says that all is well", where)
    apart_ms = abs(stats["generated_at_ms"] + stats["age_ms"] - time.time_ns() // 1_000_000)
    said = f"has a clock that differs from the one here by {apart_ms} ms"
    late = apart_ms > _CLOCKS_MS
    yield Finding("clock", Level.HINT if late else Level.OK, said, where, _CLOCK_FIX if late else "")
    yield from _versions(asked, where)


def _versions(asked: Operator, where: str) -> Iterator[Finding]:
    try:
        found = sorted({one["version"] for one in asked.cluster()["instances"] if one["alive"]})
    except LinguaError:
        # Without the engine nobody knows the others; that it is away was said.
        return
    said = f"and its neighbours run {', '.join(found)}; here is {version('lingua-scheduler')}"
    if len(found) > 1:
        yield Finding("versions", Level.WARNING, said, where, _VERSIONS_FIX)
    else:
        yield Finding("versions", Level.OK, said, where)
