"""What the flows about letters have in common: whose inbox, which letter, and how they are told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.ids import check_int
from lingua_scheduler.core.letter import Letter, Parcel, check_instance
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.store.keys import instance_tag

if TYPE_CHECKING:
    from collections.abc import Iterable

#: As many letters as anybody takes at once.
MAX_LETTERS: Final = 1_000
#: A beat is a time of the engine, in milliseconds.
_MAX_BEAT: Final = 2**53

_NUMBER: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}").fullmatch

#: A letter as a script tells of it: its number, how often it was handed out, what it says.
Told = tuple[str, int, Letter]


def check_slot(value: object) -> str:
    """The slot of an instance."""
    return instance_tag(check_instance(value))


def check_beat(value: object) -> int:
    """A beat of an instance, as `enlist` gave it."""
    return check_int("beat", value, 0, _MAX_BEAT)


def check_number(value: object) -> str:
    """The number of a letter in its inbox."""
    if type(value) is str and _NUMBER(value):
        return value
    raise Invalid("number must be one that a letter in an inbox has")


def check_limit(value: object) -> int:
    """How many letters at most."""
    return check_int("limit", value, 1, MAX_LETTERS)


def parcels(instance_id: str, letters: Iterable[Told]) -> list[Parcel]:
    """Letters out of the inbox of an instance."""
    return [Parcel(instance_id, *told) for told in letters]
