"""How much one caller may ask for, whichever door he comes to."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown, OutcomeUnknown
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.admit import Admitted, admit
from lingua_scheduler.front.purse import Purse

if TYPE_CHECKING:
    from lingua_scheduler.config import Settings
    from lingua_scheduler.store.engine import Engine

_ADMITTED: Final = Admitted()


class Buckets:
    """The buckets of credentials, and what this instance has in hand of them. Those who have no name share theirs."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._rates = settings.rates
        #: By credential, of which there are as many as the settings name.
        self._purses: dict[str, Purse] = {}

    def spend(self, name: str) -> bool:
        """Whether a credential may bring one more job, as far as that is known here already."""
        purse = self._purses.get(name)
        return purse is not None and purse.spend()

    async def admit_job(self, name: str) -> Refusal | None:
        """Whether it may; None: yes."""
        purse = self._purses.get(name)
        if purse is None:
            purse = self._purses[name] = Purse(self._rates.submits_burst, asyncio.get_running_loop().time)

        async def take_out(number: int) -> int | Refusal:
            admitted = await self._admit_new(name or "nobody", number)
            return admitted if isinstance(admitted, Refusal) else number

        return None if purse.spend() else await purse.fetch(take_out)

    async def admit_upload(self, name: str) -> Admitted | Refusal:
        """Whether it may bring one more audio: as many as jobs, and not in their place."""
        return await self._admit_new(_bucket("upload", name))

    async def admit_session(self, name: str) -> Admitted | Refusal:
        """The same for one more session."""
        return await self._admit_new(_bucket("session", name))

    async def admit_guess(self, name: str, client: str) -> Admitted | Refusal:
        """Whether somebody may show one more pairing code, be it the right one: by his name, or else by his address."""
        rates, who = self._rates, f"name {name}" if name else f"address {client}"
        return await admit(self._engine, _bucket("pairing", who), rates.pairings_per_s, rates.pairings_burst)

    async def admit_sign_in(self, client: str) -> Admitted | Refusal:
        """Whether somebody may show one more link, be it the right one: by his address, for he has no name yet."""
        rates = self._rates
        return await admit(self._engine, _bucket("sign-in", client), rates.pairings_per_s, rates.pairings_burst)

    async def _admit_new(self, bucket: str, number: int = 1) -> Admitted | Refusal:
        try:
            return await admit(self._engine, bucket, self._rates.submits_per_s, self._rates.submits_burst, number)
        except (DependencyDown, OutcomeUnknown):
            # If only the server that has the bucket is gone, nobody is refused what all others could do.
            if self._engine.has_several_servers:
                return _ADMITTED
            raise


def _bucket(what: str, who: str) -> str:
    """A bucket beside that for jobs. It is named by a digest, so that it is no credential's bucket."""
    return f"{what}-{hashlib.sha256(who.encode()).hexdigest()[:32]}"
