"""What the model remembers of a node, a job and a lease, and what follows from that.

Only primary facts are kept: what somebody said, and when. Everything that the engine keeps beside them for speed (how
many slots are taken, how a node stands, how many tries a job spent, when to look again) is worked out from them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.needs import LACKING, MARKED, MUTE, PRIVATE
from lingua_scheduler.core.records import (
    FORGET_FROM,
    GONE_FROM,
    Choice,
    JobRecord,
    Mark,
    Past,
    PastAttempt,
    Profile,
    Standing,
)
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.store.face import pack

if TYPE_CHECKING:
    from lingua_scheduler.core.job_state import State
    from lingua_scheduler.core.records import Ticket
    from lingua_scheduler.core.rules import Rules

CAUSE: Final = {cause.name: cause for cause in CAUSES}

Capability = tuple[object, ...]


@dataclass(frozen=True)
class Word:
    """A node's word on what it can do. False: not declared."""

    semantic: list[str] = field(default_factory=list)
    asr: list[str] | bool = False
    nmt: list[str] | bool = False
    tts: list[str] | bool = False
    services: list[tuple[str, bool]] = field(default_factory=list)
    labels: list[tuple[str, str]] = field(default_factory=list)
    public: bool = True
    legacy: bool = False

    def targets(self, src: str) -> set[str]:
        """Where a node that understands `src` can translate it to; `*` is anywhere."""
        if self.nmt is True:
            return {"*"}
        if self.nmt is False:
            return set(self.semantic if isinstance(self.tts, bool) else self.tts)
        ends = [pair.split(":") for pair in self.nmt]
        return {tgt for wanted, tgt in ends if wanted in {"*", src}}

    @cached_property
    def pairs(self) -> list[str]:
        """The pools of PROTOCOL section 5, in order."""
        found: set[str] = set()
        if self.legacy and ("semantic", False) in self.services:
            return []
        for src in self.semantic:
            if isinstance(self.asr, bool) or src in self.asr:
                targets = self.targets(src)
                found |= {f"{src}:{tgt}" for tgt in ({"*"} if "*" in targets else targets)}
        return sorted(found)

    def serves(self, pair: str) -> bool:
        return not {pair, pair.partition(":")[0] + ":*"}.isdisjoint(self.pairs)

    def lacks(self, target: str) -> int:
        """What it lacks for a pair with this target, as the index has it."""
        bits = sum(LACKING[name] for name, ready in self.services if not ready)
        return bits + MUTE * (not self.speaks(target)) + PRIVATE * (not self.public)

    def speaks(self, language: str) -> bool:
        return not isinstance(self.tts, bool) and language in self.tts

    def suits(self, pair: str, wanted: Wanted, *, named: bool) -> bool:
        """Whether it serves a pair and has all that a job wants; `named`: the job names it."""
        src, tgt = pair.split(":")
        lacking = {name for name, ready in self.services if not ready}
        return (
            self.serves(pair)
            and (self.serves(f"{tgt}:{src}") or not wanted.two_way)
            and lacking.isdisjoint(wanted.services)
            and ("tts" not in wanted.services or self.speaks(tgt))
            and ("tts" not in wanted.services or not wanted.two_way or self.speaks(src))
            and set(wanted.labels.items()) <= set(self.labels)
            and (self.public or named)
        )

    @cached_property
    def capability(self) -> Capability:
        """Nodes for which this is equal are interchangeable."""
        return (
            tuple(self.pairs),
            self.tts if isinstance(self.tts, bool) else tuple(self.tts),
            tuple(self.services),
            tuple(self.labels),
            self.public,
        )


def _average(known: int, latest: int) -> int:
    """An eighth of what is new, all of what is first; 0 is not known."""
    return max(1, (7 * known + latest) // 8 if known else latest)


@cache
def signature_of(capability: Capability) -> str:
    *kind, marked = capability
    name = hashlib.sha1(pack(kind), usedforsecurity=False).hexdigest()
    return f"{name}+{marked}" if marked else name


@dataclass(slots=True)
class NodeFacts:
    """What a node, its operator and its silence said."""

    word: Word
    #: Its own word on its slots, and the operator's.
    own_max: int = 0
    limit: int | None = None
    reported: str = ""
    acks: bool = True
    tells: bool = True
    epoch: str = ""
    credential: str = ""
    process: str = ""
    connection: str = ""
    opened_at: int = 0
    about: str = ""
    registered_at: int = 0
    load: list[tuple[str, float]] = field(default_factory=list)
    update: str = ""
    #: The cell has as many kinds of nodes as it may, and this would be another.
    crowded: bool = False
    intent: str = "active"
    cut_off: bool = False
    seen_at: int = 0
    lost_at: int = 0
    away_until: int = 0
    unheard: bool = False
    rest_until: int = 0
    #: What became of its last five jobs, the newest last: whether it failed them.
    failed: tuple[bool, ...] = ()
    #: When it may be tried with a job again, if it is under suspicion.
    probe_at: int = 0
    ack_ms: int = 0
    typical_ms: int = 0
    #: When it was gone, the last time last.
    gone_at: tuple[int, ...] = ()
    marks: dict[str, Mark] = field(default_factory=dict)
    marking_since: int = 0
    marked: int = 0
    #: What it held when it last spoke or was limited, which may be more than it now wants to hold.
    held: int = 0
    #: Time passes, but the index knows only what was so when somebody last looked.
    judged_at: int = 0
    heard_when_judged: int = 0
    looked_at: int = 0
    heard_when_looked: int = 0
    probe_when_looked: int = 0
    #: When its slots or its last jobs last changed, or it was judged.
    loaded_at: int = 0
    #: It had so much work when it was lost that this takes another look.
    unfinished_at: int | None = None
    #: It had room for more who wait than could be served at a time.
    serves_on_at: int = 0

    @property
    def max(self) -> int:
        """How many slots it has: the operator can only take from what it says itself."""
        return min(self.own_max, self.own_max if self.limit is None else self.limit)

    @property
    def pairs(self) -> list[str]:
        """What it serves: what its word makes it serve, unless the cell has no room for its kind."""
        return [] if self.crowded else self.word.pairs

    def serves(self, pair: str) -> bool:
        return self.word.serves(pair) and not self.crowded

    @property
    def marked_types(self) -> tuple[str, ...]:
        """The services that do not work, by their types."""
        types = {mark.type for mark in self.marks.values()}
        return SERVICES if "" in types else tuple(sorted(types))

    @property
    def capability(self) -> Capability:
        """Nodes for which this is equal are interchangeable, now. What is marked is last: the rest is its kind."""
        return (*self.word.capability, sum(MARKED[name] for name in self.marked_types))

    def lacks(self, target: str) -> int:
        return self.word.lacks(target) + sum(MARKED[name] for name in self.marked_types)

    def suits(self, pair: str, wanted: Wanted, *, named: bool, marked: bool = False) -> bool:
        """Whether it serves a pair and has all that a job wants; `marked`: whatever does not work for the moment."""
        works = marked or not set(wanted.services) & set(self.marked_types)
        return works and not self.crowded and self.word.suits(pair, wanted, named=named)

    def standing(self, at: int, used: int, rules: Rules) -> Standing:
        """Why it can or cannot be chosen: it is dead, in a grace, maybe dead; else the first reason that holds."""
        heard_at = self.seen_at if at > self.judged_at else self.heard_when_judged
        if self.lost_at:
            return Standing.lost
        if self.unheard or (at >= heard_at + rules.stale_ms and not self.away_until):
            return Standing.stale
        if self.away_until:
            return Standing.not_ready
        reasons = {
            Standing.draining: self.intent != "active",
            Standing.not_ready: self.reported != "ready" or self.cut_off,
            Standing.resting: at < self.rest_until,
            Standing.suspect_full: self._doubtful(at, used) and used >= self.max,
            Standing.suspect: self._doubtful(at, used),
            Standing.full: used >= self.max,
        }
        return next((standing for standing, holds in reasons.items() if holds), Standing.available)

    @property
    def suspect(self) -> bool:
        return sum(self.failed) >= 3

    @property
    def recent(self) -> int:
        return sum(failed << age for age, failed in enumerate(reversed(self.failed)))

    def _doubtful(self, at: int, used: int) -> bool:
        """Under suspicion, and not just being tried."""
        return self.suspect and (used > 0 or max(at, self.loaded_at) < self.probe_at)

    def blame(self, now: int, rules: Rules) -> None:
        self.failed = (*self.failed, True)[-5:]
        if self.suspect:
            self.probe_at = now + rules.probe_ms
        self.loaded_at = now

    def praise(self, ack_ms: int | None, took_ms: int, now: int) -> None:
        self.failed = (*self.failed, False)[-5:] if any(self.failed) else ()
        self.probe_at = now if self.suspect else 0
        self.ack_ms = self.ack_ms if ack_ms is None else _average(self.ack_ms, ack_ms)
        self.typical_ms = _average(self.typical_ms, took_ms)

    @property
    def flapped_at(self) -> int:
        return self.gone_at[-1] if self.gone_at else 0

    def gone(self, now: int, rules: Rules) -> list[int]:
        """How often it was gone in each of the last ten tenths of a window, the newest first. 31 is many."""
        tenths = [(now * 10 // rules.flap_window_ms) - (at * 10 // rules.flap_window_ms) for at in self.gone_at]
        return [min(31, tenths.count(age)) for age in range(10)]

    def flaps(self, rules: Rules) -> int:
        return sum(times * 32**age for age, times in enumerate(self.gone(self.flapped_at, rules)))

    def damped_ms(self, now: int, rules: Rules) -> int:
        """It is back. Gone three times lately, it rests for so long, and twice as long for each time more."""
        times = sum(self.gone(now, rules))
        return min(rules.rest_ms * 2 ** (times - 3), rules.max_rest_ms) if times >= 3 else 0

    def due(self, rules: Rules, used: int) -> int:
        """The next moment, seen from the last look, at which time alone changes something."""
        if self.unfinished_at is not None:
            return self.unfinished_at
        if self.lost_at:
            gone_at = max(self.looked_at, self.lost_at + rules.node_record_ttl_ms)
            return GONE_FROM + gone_at + (rules.limbo_ttl_ms if used else 0)
        if self.away_until:
            return self.away_until
        seen_at = self.heard_when_looked
        moments = [seen_at + rules.offline_ms]
        may_come = (seen_at + rules.stale_ms, self.rest_until, self.probe_when_looked)
        moments += [at for at in may_come if at > self.looked_at]
        return min(moments)

    def profile(self) -> Profile:
        word = self.word
        return Profile(
            credential=self.credential,
            process=self.process,
            connection=self.connection,
            registered_at_ms=self.registered_at,
            semantic=word.semantic,
            asr=word.asr,
            nmt=word.nmt,
            tts=word.tts,
            services=word.services,
            labels=word.labels,
            public=word.public,
            load=self.load,
            about=self.about,
            update=self.update,
            marks=list(self.marks.values()),
            marking_since_ms=self.marking_since,
            marked=self.marked,
            legacy=word.legacy,
            opened_ms=self.opened_at,
        )


@dataclass(slots=True)
class Lease:
    """A slot that an attempt has taken. Fenced: the node has yet to confirm that it stopped."""

    fenced_at: int | None = None
    #: When its patience ends; None when it has ended, and the node is cut off for it.
    until: int | None = None


@dataclass(slots=True)
class JobFacts:
    """What was asked for, and what came of it."""

    ticket: Ticket
    created_at: int
    seed: int
    wanted: Wanted = Wanted()  # noqa: RUF009 - frozen
    hints: Hints = Hints()  # noqa: RUF009
    choice: Choice = Choice()  # noqa: RUF009
    attempt: int = 0
    node: str = ""
    epoch: str = ""
    acks: bool = False
    reserved_at: int = 0
    dispatched_at: int = 0
    accepted_at: int = 0
    started_at: int = 0
    #: Whether somebody has begun to watch the time for the result; until then the time for the ack is watched.
    watched: bool = False
    looked_at: int = 0
    #: Its time was up, but its node is in a grace.
    held_until: int = 0
    #: Whether it stands in the queue.
    waits: bool = False
    history: list[PastAttempt] = field(default_factory=list)
    end: State | None = None
    ended_at: int = 0
    reason: str = ""
    released_at: int = 0
    text_until: int = 0
    erased: bool = False
    payload: str = ""
    result: str = ""

    @property
    def deadline_at(self) -> int:
        return self.created_at + self.ticket.timeout_ms

    @property
    def live(self) -> bool:
        """Whether an attempt is under way."""
        return self.end is None and not self.waits

    @property
    def state(self) -> State:
        if self.end is not None:
            return self.end
        if not self.live:
            return "RETRYING" if self.attempt else "WAITING"
        if self.started_at:
            return "RUNNING"
        if self.accepted_at:
            return "ACCEPTED"
        return "DISPATCHED" if self.dispatched_at else "RESERVED"

    @property
    def hurry(self) -> tuple[int, str]:
        """Who has the least of these is served first."""
        return self.deadline_at, self.ticket.job

    @property
    def accepted(self) -> bool:
        return bool(self.accepted_at)

    def number_of(self, counter: str) -> int:
        return sum(CAUSE[past.cause].counts == counter for past in self.history)

    def tries(self, rules: Rules) -> int:
        """What counts against `max_retry`. A refusal by an overloaded node counts only after many of them."""
        paid = sum(CAUSE[past.cause].costs_try for past in self.history)
        return paid + max(0, self.number_of("overloaded") - rules.max_overloaded)

    def due(self, rules: Rules) -> int:
        """When somebody must look at it."""
        if self.released_at:
            return FORGET_FROM + self.released_at + rules.released_ttl_ms
        if self.end is not None:
            return FORGET_FROM + (self.ended_at + rules.job_record_ttl_ms if self.erased else self.text_until)
        if not self.live:
            return self.deadline_at if self.attempt else self.created_at + self.ticket.wait_ms
        if self.held_until:
            return min(self.held_until, self.deadline_at)
        if self.watched:
            return min(self.accepted_at + self.ticket.run_ms, self.deadline_at)
        return min(self.reserved_at + self.ticket.ack_ms, self.looked_at + self.ticket.run_ms, self.deadline_at)

    def record(self, rules: Rules) -> JobRecord:
        return JobRecord(
            state=self.state,
            attempt=self.attempt,
            node=self.node,
            epoch=self.epoch,
            acks=int(self.acks),
            deadline_at_ms=self.deadline_at,
            run_ms=self.ticket.run_ms,
            seed=self.seed,
            created_at_ms=self.created_at,
            reserved_at_ms=self.reserved_at,
            dispatched_at_ms=self.dispatched_at,
            accepted_at_ms=self.accepted_at,
            started_at_ms=self.started_at,
            ended_at_ms=self.ended_at,
            past=Past(
                tries=self.tries(rules),
                undelivered=self.number_of("undelivered"),
                overloaded=self.number_of("overloaded"),
                lost=self.number_of("lost"),
                released_at_ms=self.released_at,
                reason=self.reason,
                attempts=self.history,
                reasons=self.choice.reasons,
            ),
            chosen=self.choice.packed(),
        )
