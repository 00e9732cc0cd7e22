"""What messages are made of: their base, and the bounded types of their fields."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from lingua_scheduler.core.capability import MAX_LABELS
from lingua_scheduler.core.node import MAX_RUNNING, MAX_SLOTS
from lingua_scheduler.core.ticket import MAX_INDEX, MAX_TIMEOUT_MS, MAX_WAIT_MS

#: As `core.ids.check_id` has it. `$` alone would let a line end through.
ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$(?!\n)"
CODE_PATTERN: Final = r"^[0-9]{6}$(?!\n)"

Id = Annotated[str, Meta(pattern=ID_PATTERN, description="1 to 128 of A-Z a-z 0-9 . _ -, no mark first")]
PairingCode = Annotated[str, Meta(pattern=CODE_PATTERN, description="six digits")]
#: A BCP-47 tag; whether it names a language is not known before it is reduced.
Language = Annotated[str, Meta(min_length=1, max_length=256)]
#: Names, versions, tokens: data that is compared or shown, never part of a key.
MAX_TEXT_CHARS: Final = 128
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
Epoch = Annotated[str, Meta(max_length=64)]
Ref = Annotated[str, Meta(max_length=2_048)]
#: What people or programs wrote for people: cut where it is kept.
Prose = Annotated[str, Meta(max_length=65_536)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
#: Of an utterance, as whoever says it numbers it.
Index = Annotated[int, Meta(ge=0, le=MAX_INDEX)]
AttemptId = Annotated[int, Meta(ge=1, le=1_000_000)]
Slots = Annotated[int, Meta(ge=1, le=MAX_SLOTS)]
WaitMs = Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)]
TimeoutMs = Annotated[int, Meta(ge=1, le=MAX_TIMEOUT_MS)]
SampleRate = Annotated[int, Meta(ge=1, le=768_000)]
Labels = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=128)]], Meta(max_length=MAX_LABELS)
]
#: Whatever somebody else put together, handed on as it is.
Anything = dict[str, Any]
#: Measured by somebody else, whole or not, and handed on as it came.
Number = Annotated[int, Meta(ge=-(2**53), le=2**53)] | float
Health = Literal["registering", "ready", "degraded", "draining", "offline"]
Mode = Literal["one_way", "two_way_auto"]


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whatever travels. The only default is None, so that what is left out is what was not said."""


class RunningAttempt(Message, frozen=True, kw_only=True):
    """An attempt that a node works on, or must stop."""

    job_id: Id
    attempt_id: AttemptId


Running = Annotated[list[RunningAttempt], Meta(max_length=MAX_RUNNING)]


def pairs_of(running: list[RunningAttempt] | None) -> list[tuple[str, int]] | None:
    """The attempts as the flows name them."""
    return None if running is None else [(one.job_id, one.attempt_id) for one in running]


def cut(text: str, most: int) -> str:
    """Text that is kept, but not for ever so long."""
    return text if len(text) <= most else text[: most - 1] + "…"
