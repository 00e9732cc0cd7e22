"""What a node says of itself, and that in the words of the flows `register` and `heartbeat`.

The keys of `Registering` and `Beating` are keywords of these flows: `register(engine, cell, node_id, **words)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.protocol.fields import Epoch, Health, Labels, Message, Running, Slots, Text, pairs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Services(Message, frozen=True, kw_only=True):
    """Which services are ready. What is left out is not known to be missing."""

    asr: bool | None = None
    nmt: bool | None = None
    tts: bool | None = None
    semantic: bool | None = None
    tone: bool | None = None

    def said(self) -> dict[str, bool]:
        """What was said of them."""
        values = {name: getattr(self, name) for name in SERVICES}
        return {name: ready for name, ready in values.items() if ready is not None}


class Declaration(Message, frozen=True, kw_only=True):
    """What a node says of itself. How many languages and pairs are too many, `core.capability` says."""

    health: Health | None = None
    semantic_langs: list[str] | None = None
    asr_langs: list[str] | None = None
    nmt_pairs: list[tuple[str, str]] | Literal["any"] | None = None
    tts_langs: list[str] | None = None
    max_concurrent_jobs: Slots | None = None
    services: Services | None = None
    labels: Labels | None = None
    accept_public_jobs: bool | None = None
    epoch: Epoch | None = None
    process_id: Text | None = None
    running: Running | None = None


class Declared(TypedDict):
    """What a node can do. None: not said."""

    semantic_langs: Sequence[str] | None
    asr_langs: Sequence[str] | None
    nmt_pairs: Sequence[Sequence[str]] | str | None
    tts_langs: Sequence[str] | None
    services: Mapping[str, bool] | None
    labels: Mapping[str, str] | None
    accept_public_jobs: bool | None
    running: Sequence[tuple[str, int]] | None
    lenient: bool


class Registering(Declared):
    """What `register` is told."""

    max_concurrent_jobs: int
    health: str
    epoch: str
    process_id: str
    acks: bool
    tells: bool
    about: str


class Beating(Declared):
    """What `heartbeat` is told. None: as it was."""

    max_concurrent_jobs: int | None
    health: str | None
    current_load: Mapping[str, float] | None
    running_jobs: int | None


def declared(said: Declaration) -> Declared:
    """What a node can do, by its own fields."""
    return Declared(
        semantic_langs=said.semantic_langs,
        asr_langs=said.asr_langs,
        nmt_pairs=said.nmt_pairs,
        tts_langs=said.tts_langs,
        services=None if said.services is None else said.services.said(),
        labels=said.labels,
        accept_public_jobs=said.accept_public_jobs,
        running=pairs_of(said.running),
        lenient=False,
    )


def registering(said: Declaration, *, slots: int = 4) -> Registering:
    """A registration over HTTP: such a node says when it has a job, and when it has stopped."""
    return Registering(
        **declared(said),
        max_concurrent_jobs=said.max_concurrent_jobs or slots,
        health=said.health or "ready",
        epoch=said.epoch or "",
        process_id=said.process_id or "",
        acks=True,
        tells=True,
        about="",
    )
