"""Letters from one scheduler to another, and what is known of who reads them.

A letter is a small record in the inbox of an instance. Only its kind says what it means, and only its reader knows.
"""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_id, check_int, check_text
from lingua_scheduler.core.records import Record
from lingua_scheduler.core.refusal import Invalid

#: What a letter may say besides what it names. Text and audio of a job never travel by letter.
MAX_DETAIL_CHARS: Final = 4_096
_MAX_WORD_CHARS: Final = 128
#: As many attempts as a job can have, and more.
_MAX_ATTEMPT: Final = 2**31

#: Of a dead letter: its number, a dot, and the id of an instance.
MAX_LETTER_ID_CHARS: Final = 256
MAX_REASON_CHARS: Final = 500

#: How long it is remembered that an inbox was closed. Whoever enlisted before that and appears after it enlists again.
CLOSED_MS: Final = 86_400_000

#: A letter that failed so often is a dead letter.
MAX_DELIVERIES: Final = 10


class Letter(Record, frozen=True):
    """What one instance tells another. What it does not name is empty."""

    kind: str
    job: str = ""
    attempt: int = 0
    node: str = ""
    session: str = ""
    detail: str = ""
    trace: str = ""

    @property
    def about(self) -> str:
        """Letters about the same are handed over one after the other."""
        return self.job or self.session or self.node or self.kind


class Parcel(Record, frozen=True):
    """A letter on its way: in whose inbox it lies, its number there, and how often it has been handed out."""

    instance: str
    number: str
    deliveries: int
    letter: Letter

    @property
    def id(self) -> str:
        """Its name when it is dead. The number begins with the time at which it was posted."""
        return f"{self.number}.{self.instance}"


class DeadLetter(Record, frozen=True):
    """A letter that nobody could make use of: to whom it was sent, why it failed, how often it was tried."""

    instance: str
    reason: str
    deliveries: int
    letter: Letter
    buried_at_ms: int = 0


class Presence(Record, frozen=True):
    """What an instance says of itself with every beat."""

    instance: str
    started_at_ms: int
    version: str
    host: str
    pid: int
    url: str
    nodes: int
    sessions: int
    draining: bool
    #: A sketch of how long its dispatches took lately.
    dispatches: tuple[tuple[int, int], ...] = ()


class UnknownKind(Exception):
    """This release knows no letters of this kind. Another may: it waits for a restart, or for who takes it over."""


def check_instance(value: object) -> str:
    """The id of an instance."""
    return check_id("instance_id", value)


def check_letter(value: object) -> Letter:
    """A letter whose fields are what they should be, and not too long."""
    if not isinstance(value, Letter):
        raise Invalid("letter must be a letter")
    for name in ("job", "node", "session", "trace"):
        check_text(name, getattr(value, name), _MAX_WORD_CHARS)
    check_id("kind", value.kind)
    check_int("attempt", value.attempt, 0, _MAX_ATTEMPT)
    check_text("detail", value.detail, MAX_DETAIL_CHARS)
    return value
