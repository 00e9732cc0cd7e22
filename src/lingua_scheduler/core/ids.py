"""Ids and other input, checked before it comes near a key name."""

from __future__ import annotations

import functools
import re
from typing import Final

from lingua_scheduler.core.refusal import Invalid

MAX_ID_LENGTH: Final = 128
#: Of a pairing code.
CODE_DIGITS: Final = 6
_MAX_SHOWN: Final = 40
#: The engine reads a cursor as an unsigned 64-bit number, and fails on a larger one.
_CURSORS: Final = 2**64
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}").fullmatch
_CELL: Final = re.compile(r"[a-z][a-z0-9]{0,15}").fullmatch
_MADE: Final = re.compile(r"[a-z][a-z0-9]{0,15}\.([0-9a-f]{8})-([0-9a-f]{4})-7").match
_JOB_ID: Final = re.compile(r"([a-z][a-z0-9]{0,15})\.[A-Za-z0-9._-]{1,111}").fullmatch


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def check_id(name: str, value: object) -> str:
    """A node, session, request, bind or tenant id."""
    if type(value) is str and _ID(value):
        return value
    raise Invalid(
        f"{name} must be 1 to {MAX_ID_LENGTH} of A-Z a-z 0-9 . _ - and begin with no mark, not {_shown(value)}"
    )


def check_cell(value: object) -> str:
    """A cell's name."""
    if type(value) is str and _CELL(value):
        return value
    raise Invalid(f"a cell is named like c0, not {_shown(value)}")


def check_int(name: str, value: object, least: int, most: int) -> int:
    """A whole number within bounds. True and 1.0 are not."""
    if type(value) is int and least <= value <= most:
        return value
    raise Invalid(f"{name} must be a whole number from {least} to {most}, not {_shown(value)}")


def check_bool(name: str, value: object) -> bool:
    """Exactly True or False."""
    if isinstance(value, bool):
        return value
    raise Invalid(f"{name} must be true or false, not {_shown(value)}")


def check_text(name: str, value: object, most: int) -> str:
    """Text that is only ever data: bounded, and encodable."""
    if type(value) is str and len(value) <= most:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{name} is not valid Unicode") from None
        return value
    raise Invalid(f"{name} must be text of at most {most} characters, not {_shown(value)}")


def check_code(value: object) -> str:
    """A pairing code."""
    if type(value) is str and len(value) == CODE_DIGITS and value.isascii() and value.isdecimal():
        return value
    raise Invalid(f"a pairing code has {CODE_DIGITS} digits, not {_shown(value)}")


@functools.lru_cache(maxsize=8_192)
def made_at_ms(job_id: str) -> int | None:
    """When a job's id was made, by the clock of whoever made it: a UUID of version 7 begins with that."""
    found = _MADE(job_id)
    return int(found[1] + found[2], 16) if found else None


def check_cursor(value: object) -> str:
    """Where the next page begins: what the last one gave, or "0"."""
    text = check_text("cursor", value, 20)
    if text.isascii() and text.isdecimal() and int(text) < _CURSORS:
        return text
    raise Invalid("cursor must be one that an earlier page gave, or 0")


def cell_of(job_id: object) -> str:
    """The home cell that a job id names."""
    cell = _cell_of(job_id) if type(job_id) is str else None
    if cell is None:
        raise Invalid(f"job_id must be a cell, a dot and an id, like c0.0192f0c1, not {_shown(job_id)}")
    return cell


@functools.lru_cache(maxsize=8_192)
def _cell_of(job_id: str) -> str | None:
    """Of the same job it is asked again and again while it is under way."""
    found = _JOB_ID(job_id)
    return None if found is None else found[1]


def name_of(job_id: str) -> str:
    """The part of a job id behind its cell: it keeps that wherever it goes."""
    return job_id.partition(".")[2]


def in_cell(job_id: str, cell: str) -> str:
    """The id of the same job in another cell."""
    return f"{cell}.{name_of(job_id)}"
