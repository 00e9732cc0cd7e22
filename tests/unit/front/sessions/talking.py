"""A session without sockets and without time: what a test says to the machine, and what came of it."""

from __future__ import annotations

import base64
import itertools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lingua_scheduler.core.replay import Result
from lingua_scheduler.front.sessions.effects import Announce, Effect, Number, Submit, Write
from lingua_scheduler.front.sessions.opening import Begin, Opening
from lingua_scheduler.front.sessions.rules import SessionRules
from lingua_scheduler.front.sessions.state import About, hash_of, pack_state, unpack_state
from lingua_scheduler.front.sessions.talk import Talk
from lingua_scheduler.protocol.session import AudioChunk, SessionInit, Utterance

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION: Final = "s-1"
TOKEN: Final = "s-1.secret"  # noqa: S105 - nobody has it
START_MS: Final = 1_000_000
E = TypeVar("E")
#: A tenth of a second of pcm16.
TENTH: Final = bytes(3_200)


def counting() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"id-{next(numbers)}"


def init(**said: Any) -> SessionInit:
    return SessionInit(**{"src_lang": "en", "tgt_lang": "zh", "platform": "android", **said})


def about(session_init: SessionInit) -> About:
    begun = Opening(SessionRules(), START_MS, "t-socket").hear(session_init)
    assert isinstance(begun, Begin)
    return About(
        session_id=SESSION,
        principal="ann",
        token_hash=hash_of(TOKEN),
        trace_id="t-session",
        init=begun.init,
        agreed=begun.agreed,
    )


def talk(rules: SessionRules = SessionRules(), **said: Any) -> Talk:  # noqa: B008 - frozen
    return Talk.begin(rules, about(init(**said)), START_MS, counting())


def utterance(index: int, audio: bytes = TENTH, **said: Any) -> Utterance:
    return Utterance(utterance_index=index, audio=base64.b64encode(audio).decode(), **said)


def chunk(seq: int, audio: bytes = b"", *, is_final: bool = False, **said: Any) -> AudioChunk:
    return AudioChunk(seq=seq, payload=base64.b64encode(audio).decode(), is_final=is_final, **said)


def of(kind: type[E], effects: list[Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def only(kind: type[E], effects: list[Effect]) -> E:
    (found,) = of(kind, effects)
    return found


def messages(effects: list[Effect], kind: type[E]) -> list[E]:
    return [write.message for write in of(Write, effects) if isinstance(write.message, kind)]


def events(effects: list[Effect]) -> list[tuple[int, int, str]]:
    """What goes out: the event's id, its utterance, and its job or why it is missing."""
    return [
        (
            event.event_id,
            event.index,
            event.outcome.body.decode() if isinstance(event.outcome, Result) else event.outcome.reason,
        )
        for announced in of(Announce, effects)
        for event in announced.events
    ]


def say(machine: Talk, index: int, now_ms: int = START_MS, **said: Any) -> Submit:
    """An utterance that gets its number at once."""
    asked = only(Number, machine.hear(utterance(index, **said), now_ms))
    assert asked.index == index
    return only(Submit, machine.numbered(index, f"c0.j{index}", now_ms))


def place(machine: Talk, index: int, now_ms: int = START_MS) -> list[Effect]:
    return machine.placed(index, now_ms)


def said_and_placed(machine: Talk, *indexes: int, now_ms: int = START_MS) -> None:
    for index in indexes:
        say(machine, index, now_ms)
        place(machine, index, now_ms)


def moved(machine: Talk, now_ms: int = START_MS) -> Talk:
    """The same session on another instance, where its client comes back."""
    saved = unpack_state(pack_state(machine.save()))
    assert saved is not None
    return Talk.load(machine.ledger.rules, saved, now_ms, counting(), machine.heard().since(0))
