"""What a session must keep within, and what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.cutting import CutLimits
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.order import OrderLimits

if TYPE_CHECKING:
    from lingua_scheduler.config import Settings


class SessionRules(msgspec.Struct, frozen=True):
    """The defaults are the product's."""

    cut: CutLimits = CutLimits()
    order: OrderLimits = OrderLimits()
    #: What a job is given whose session says nothing of it.
    job: Limits = Limits()
    #: How long an utterance may wait for a slot, if nobody says otherwise.
    wait_ms: int = 2_000
    #: How many utterances a session may begin.
    rate_per_s: int = 20
    burst: int = 40
    max_message_bytes: int = 4 * 1024 * 1024
    #: How many utterances, and how much of their audio, may be on their way to a node at once.
    max_unplaced: int = 64
    max_unplaced_bytes: int = 8 * 1024 * 1024
    #: How many utterances may be without their answer; whoever goes on beyond that is sent away.
    max_open: int = 1_024
    #: A socket without a `session_init`, and one on which nobody says anything while nothing is awaited.
    opening_ms: int = 10_000
    idle_ms: int = 300_000
    #: How often the jobs that are awaited are looked at, in case nobody tells how they end; and the one that others
    #: wait for.
    look_ms: int = 5_000
    look_closely_ms: int = 1_000
    #: How long a job may still turn up that was about to be made where a session was before.
    doubt_ms: int = 5_000
    #: How often the state is saved though nothing has changed, so that it does not expire.
    save_every_ms: int = 30_000
    #: What was heard and is in no job is saved so soon at the latest.
    keep_every_ms: int = 1_000
    #: The same warning at most so often.
    backpressure_ms: int = 1_000
    #: How much longer than its job the audio of an utterance is kept.
    audio_ttl_ms: int = 120_000

    @property
    def state_ttl_ms(self) -> int:
        """How long the state outlives its last save: the window counts from when its client was last there."""
        return self.order.window_ms + 2 * self.save_every_ms


def rules_of(settings: Settings) -> SessionRules:
    """As the settings say."""
    said, rates = settings.sessions, settings.rates
    return SessionRules(
        cut=CutLimits(said.pause_ms, said.max_duration_ms, said.max_utterance_bytes),
        order=OrderLimits(window_ms=said.resume_window_ms, gap_ms=said.gap_ms),
        job=settings.limits(),
        wait_ms=said.wait_ms,
        rate_per_s=rates.utterances_per_s,
        burst=rates.utterances_burst,
        opening_ms=said.opening_ms,
        idle_ms=said.idle_ms,
        keep_every_ms=said.keep_every_ms,
    )
