"""How much one caller may ask for, whichever door he comes to."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lingua_scheduler.flows.admit import admit

if TYPE_CHECKING:
    from lingua_scheduler.core.refusal import Refusal
    from lingua_scheduler.flows.admit import Admitted
    from lingua_scheduler.front.desk import Desk


async def admit_new(desk: Desk, name: str) -> Admitted | Refusal:
    """Whether a credential may bring one more job, audio or session. Those who have no name share a bucket."""
    rates = desk.settings.rates
    return await admit(desk.engine, name or "nobody", rates.submits_per_s, rates.submits_burst)


async def admit_guess(desk: Desk, name: str, client: str) -> Admitted | Refusal:
    """Whether somebody may show one more pairing code: by his name, or else by his address. The right one counts too.

    The bucket has the digest of either for a name, so that it is no credential's bucket.
    """
    rates, who = desk.settings.rates, f"name {name}" if name else f"address {client}"
    bucket = f"pairing-{hashlib.sha256(who.encode()).hexdigest()[:32]}"
    return await admit(desk.engine, bucket, rates.pairings_per_s, rates.pairings_burst)
