"""A node's word about itself, beside its capabilities: its health, its slots, what it works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast, get_args

from lingua_scheduler.core.ids import cell_of, check_int, check_text
from lingua_scheduler.core.refusal import Invalid

#: Who registers a node once more by the connection that it has; "": nobody, the connection is a new one.
RenewedBy = Literal["", "node", "instance"]
#: How a node's socket came to its end: somebody closed it; we did, to stop, and others take its node in; or we hung up,
#: because nobody answered our pings.
Parting = Literal["closed", "handover", "unheard"]
PARTINGS: Final[tuple[Parting, ...]] = get_args(Parting)

REPORTED: Final = ("registering", "ready", "degraded", "draining", "offline")
MAX_SLOTS: Final = 1024
#: A node may be at work on more than its slots (they were lowered), but not on everything.
MAX_RUNNING: Final = 4 * MAX_SLOTS
#: How much a node may say of itself that is only shown.
MAX_ABOUT: Final = 16_384
LOADS: Final = ("gpu", "cpu", "mem")


def check_reported(value: object) -> str:
    """The node's own word on its health."""
    if isinstance(value, str) and value in REPORTED:
        return value
    raise Invalid(f"health must be one of {', '.join(REPORTED)}")


def check_renewed_by(value: object) -> RenewedBy:
    """Who registers a node once more."""
    if isinstance(value, str) and value in get_args(RenewedBy):
        return cast("RenewedBy", value)
    raise Invalid("renewed_by must be node, instance or nobody")


def check_parting(value: object) -> Parting:
    """How a node's socket came to its end."""
    if isinstance(value, str) and value in PARTINGS:
        return value
    raise Invalid(f"how must be one of {', '.join(PARTINGS)}")


def check_slots(value: object) -> int:
    """How many jobs a node takes at once."""
    return check_int("max_concurrent_jobs", value, 1, MAX_SLOTS)


def check_running(value: object) -> list[tuple[str, int]]:
    """What a node works on: pairs of job id and attempt."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) > MAX_RUNNING:
        raise Invalid(f"running must be a list of at most {MAX_RUNNING} attempts")
    found: list[tuple[str, int]] = []
    for entry in value:
        if not isinstance(entry, Sequence) or isinstance(entry, str | bytes) or len(entry) != 2:  # noqa: PLR2004
            raise Invalid("running must name each attempt by its job_id and attempt_id")
        job_id, attempt = entry
        cell_of(job_id)
        found.append((job_id, check_int("attempt_id", attempt, 1, 1_000_000)))
    return found


def check_load(value: object) -> list[tuple[str, float]]:
    """How busy a node says it is, as shares from 0 to 1. Unknown names and nulls are left out."""
    if not isinstance(value, Mapping):
        raise Invalid("current_load must map gpu, cpu or mem to shares")
    found: list[tuple[str, float]] = []
    for name, share in value.items():
        if name not in LOADS or share is None:
            continue
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise Invalid("current_load must map gpu, cpu or mem to shares from 0 to 1")
        found.append((name, float(share)))
    return sorted(found)


def check_about(value: object) -> str:
    """Whatever else a node says of itself, as text that is only shown."""
    return check_text("about", value, MAX_ABOUT)
