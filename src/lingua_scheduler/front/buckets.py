"""How much one caller may ask for, whichever door he comes to."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lingua_scheduler.flows.admit import admit

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.flows.admit import Admitted
    from lingua_scheduler.front.desk import Desk


async def admit_job(desk: Desk, name: str) -> Admitted | Refusal:
    """Whether a credential may bring one more job. Those who have no name share a bucket."""
    return await _admit_new(desk, name or "nobody")


async def admit_upload(desk: Desk, name: str) -> Admitted | Refusal:
    """Whether it may bring one more audio: as many as jobs, and not in their place."""
    return await _admit_new(desk, _bucket("upload", name))


async def admit_session(desk: Desk, name: str) -> Admitted | Refusal:
    """The same for one more session."""
    return await _admit_new(desk, _bucket("session", name))


async def _admit_new(desk: Desk, bucket: str) -> Admitted | Refusal:
    rates = desk.settings.rates
    return await admit(desk.engine, bucket, rates.submits_per_s, rates.submits_burst)


async def admit_guess(desk: Desk, name: str, client: str) -> Admitted | Refusal:
    """Whether somebody may show one more pairing code, be it the right one: by his name, or else by his address."""
    rates, who = desk.settings.rates, f"name {name}" if name else f"address {client}"
    return await admit(desk.engine, _bucket("pairing", who), rates.pairings_per_s, rates.pairings_burst)


def _bucket(what: str, who: str) -> str:
    """A bucket beside that for jobs. It is named by a digest, so that it is no credential's bucket."""
    return f"{what}-{hashlib.sha256(who.encode()).hexdigest()[:32]}"
