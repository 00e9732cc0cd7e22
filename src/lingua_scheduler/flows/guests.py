"""What the flows about guests have in common: how they name an attempt in another cell, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.ids import cell_of, check_int
from lingua_scheduler.core.records import Ticket
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.flows.attempts import MAX_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Callable

#: How an attempt can end without a result; "": it never began.
WITHOUT_RESULT: Final = frozenset(cause.name for cause in CAUSES) | {""}
#: How a guest can end: without a result; with one; before it began; and what comes later, that its node has stopped.
HOW: Final = frozenset(cause.name for cause in CAUSES) | {"done", "back", "confirmed"}


def check_guest(job_id: object, attempt_id: object) -> tuple[str, tuple[str, int]]:
    """The cell in which the job is at home, and its attempt as the scripts read it."""
    return cell_of(job_id), (str(job_id), check_int("attempt_id", attempt_id, 1, MAX_ATTEMPT))


def check_deadline(value: object) -> int:
    """When the job is over, whatever becomes of it."""
    return check_int("deadline_at_ms", value, 0, 2**53)


def check_end(name: str, value: object, known: frozenset[str]) -> str:
    """One of the words for an end."""
    if isinstance(value, str) and value in known:
        return value
    raise Invalid(f"{name} must be one of {', '.join(sorted(known - {''}))}")


def check_list(name: str, value: object, check: Callable[[str, object], str]) -> list[str]:
    """A list of texts that are checked one by one."""
    if isinstance(value, list | tuple):
        return [check(name, one) for one in value]
    raise Invalid(f"{name} must be a list")


def check_ticket(value: object) -> Ticket:
    """What a job asked for, as `send_out` gives it."""
    if isinstance(value, Ticket):
        return value
    raise Invalid("ticket must be that of a job")
