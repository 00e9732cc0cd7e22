"""enter_session: one more utterance of a session, its number, and whether it may come."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

from lingua_scheduler.core.ids import MAX_ID_LENGTH, check_id, check_int, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.core.ticket import LAST_INDEX, MAX_INDEX
from lingua_scheduler.flows.rates import Limited, check_rate
from lingua_scheduler.flows.sessions import MAX_SESSION_MS, check_principal, check_session, others_session
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


#: So many may be asked for at once.
MAX_NUMBERS: Final = 1_024


class Entered(Answer, frozen=True, tag="ENTERED"):
    """The utterance may come, under this index; and so many in all, under those that follow.

    `owner`: the connection that has the session, if somebody else asked for the number.
    """

    utterance_index: int
    number: int = 1
    owner: str = ""


class Coming(NamedTuple):
    """The job that somebody is about to make for a session which is not his connection's."""

    job: str = ""
    trace: str = ""
    timeout_ms: int = 0


NOTHING: Final = Coming()


class _Taken(Answer, frozen=True, tag="TAKEN"):
    """Somebody has the caller's index, or had it: numbers go on from here."""

    next_index: int


_ENTER_SESSION: Final = Face[Entered | _Taken | Limited](
    "flows/enter_session", Entered, _Taken, Limited, refuses=("FORBIDDEN", "SESSION_TAKEN")
)


@functools.lru_cache(maxsize=64, typed=True)
def _bounds(rate: int, burst: int, ttl_ms: int) -> tuple[int, int, int]:
    """What the settings say: mostly the same."""
    return (*check_rate(rate, burst), check_int("ttl_ms", ttl_ms, 1, MAX_SESSION_MS))


def _check_coming(coming: Coming) -> Coming:
    check_text("job_id", coming.job, MAX_ID_LENGTH)
    check_text("trace_id", coming.trace, MAX_ID_LENGTH)
    check_int("timeout_ms", coming.timeout_ms, 0, MAX_SESSION_MS)
    return coming


async def enter_session(
    engine: Engine,
    session_id: str,
    principal: str,
    *,
    utterance_index: int | None,
    at_least: int = 0,
    rate: int,
    burst: int,
    ttl_ms: int,
    owner: str = "",
    number: int = 1,
    coming: Coming = NOTHING,
) -> Entered | Refusal:
    """Number an utterance, if the session is this principal's ("": nobody's in particular) and did not send too much.

    Whoever comes first has the session. It is his, and no number comes twice, until nobody entered or saved it for
    `ttl_ms`. An index of the caller's own must be one that nobody had, in whatever order they come; without one he gets
    the next, and none below `at_least`, up to which he knows of numbers that the engine may have forgotten.

    `owner`: the connection that holds the session and asks for itself. Until it has saved a state that knows the
    number, whoever takes the session over can have it again. SESSION_TAKEN: another connection has the session.

    `number`: who is about to say several things, and numbers none of them, may ask for so many at once. He gets one if
    the session has a connection, or may have one again.

    `coming`: the job that will have the number. If the session has a connection, whoever takes it over is told of it.
    """
    try:
        tag = check_session(session_id)
        index = -1 if utterance_index is None else check_int("utterance_index", utterance_index, 0, MAX_INDEX)
        least = check_int("at_least", at_least, 0, LAST_INDEX)
        asks = check_id("owner", owner) if owner else ""
        several = check_int("number", number, 1, MAX_NUMBERS if index < 0 and not owner else 1)
        item = pack(
            (
                check_principal(principal),
                index,
                least,
                *_bounds(rate, burst, ttl_ms),
                asks,
                several,
                *_check_coming(coming),
            )
        )
    except Invalid as invalid:
        return invalid.refusal
    answer = await _ENTER_SESSION(engine, tag, item)
    if isinstance(answer, No):
        return others_session(session_id) if answer.code == "FORBIDDEN" else refuse(answer.code)
    if isinstance(answer, _Taken):
        return Invalid(f"utterance_index {index} was given out before; {answer.next_index} is the next").refusal
    return answer.refusal() if isinstance(answer, Limited) else answer
