"""How messages are drawn: what stands twice in a list is wanted twice as often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.node import PARTINGS
from lingua_scheduler.core.wanted import Hints, Wanted
from tests.property.messages import (
    CAPABILITIES,
    CHANGES,
    LANGUAGES,
    NODES,
    Aim,
    Beat,
    Disconnect,
    Dispatch,
    Fault,
    Intend,
    Leave,
    Limit,
    Message,
    OfJob,
    Reap,
    Register,
    Relay,
    Report,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


def _node(rng: Random) -> str:
    return rng.choice((*NODES[:2], *NODES[:3], *NODES))


def _running(rng: Random) -> str:
    honest = ("untold", "untold", "live", "live", "all", "repeated")
    return rng.choice((*honest, "nothing", "nothing", "some", "ghost", "coming", "others", "next"))


def _slots(rng: Random) -> int:
    return rng.choice((1, 2, 2, 3, 5))


def some_register(rng: Random) -> Register:
    """Any registration: a restart, a second process, a thief, a liar."""
    return Register(
        node=_node(rng),
        said=rng.randrange(len(CAPABILITIES)),
        max=_slots(rng),
        health=rng.choice(("ready", "ready", "ready", "ready", "registering", "degraded")),
        epoch=rng.choice(("", "", "same", "same", "same", "0-old")),
        process=rng.choice(("", "", "same", "p1", "p2")),
        connection=rng.choice(("", "same", "s1", "s2")),
        credential=rng.choice(("", "", "", "", "", "thief")),
        running=_running(rng),
        acks=rng.random() < 0.6,
        tells=rng.random() < 0.6,
        renewed_by=rng.choice(("", "", "", "", "node", "instance")),
        age_ms=rng.choice((None, 0, 1, 1_000, 30_000, -1_000)),
    )


def some_join(rng: Random) -> Register:
    """A node as it should be, so that there is somebody to work with."""
    return Register(
        node=_node(rng),
        said=rng.choice((0, 0, 0, 2, 3, 4, 5, 7)),
        max=_slots(rng),
        health="ready",
        epoch=rng.choice(("", "same", "same")),
        process="same",
        connection=rng.choice(("", "s1")),
        credential="",
        running=rng.choice(("untold", "live")),
        acks=rng.random() < 0.6,
        tells=rng.random() < 0.6,
    )


def some_beat(rng: Random) -> Beat:
    return Beat(
        node=_node(rng),
        epoch=rng.choice(("", "", "same", "same", "same", "0-old")),
        health=rng.choice((None, None, None, "ready", "ready", "degraded", "offline")),
        max=rng.choice((None, None, None, 1, 2, 4)),
        load=rng.choice((None, None, 0.25, 1.0)),
        running=_running(rng),
        running_jobs=rng.choice((None, 0, 0, 1, 2)),
        change=rng.choice((*[None] * 8, *range(len(CHANGES)))),
        connection=rng.choice(("", "", "same", "same", "s1")),
        age_ms=rng.choice((None, None, None, 0, 1_000, 2_000, 10_000, -1_000)),
    )


def some_intent(rng: Random) -> Intend:
    return Intend(rng.choice(("drain", "resume", "resume", "resume", "evict")), _node(rng))


def some_limit(rng: Random) -> Limit:
    return Limit(_node(rng), rng.choice((None, None, 1, 1, 2, 4)))


def some_fault(rng: Random) -> Fault:
    told_by = rng.choice(("", "", "", "s1"))
    return Fault(_node(rng), rng.choice(("", "whisper", "m2m")), rng.choice(("asr", "tone", "")), told_by)


def some_leave(rng: Random) -> Leave:
    return Leave(_node(rng), rng.choice(("", "same", "0-old")))


def some_disconnect(rng: Random) -> Disconnect:
    return Disconnect(_node(rng), rng.choice(("same", "same", "same", "s2")), rng.choice(PARTINGS))


LIMITS: Final = (
    Limits(),
    Limits(max_retry=0),
    Limits(ack_ms=50, run_ms=300, timeout_ms=600),
    Limits(ack_ms=400, run_ms=150, timeout_ms=1_000),
    Limits(ack_ms=500, run_ms=2_000, timeout_ms=86_000_000, max_retry=10),
)


def some_wanted(rng: Random) -> Wanted:
    """What most want, or something that is harder to have."""
    wanted = rng.choice(
        (
            *[Wanted()] * 4,
            Wanted(services=("asr", "nmt", "semantic", "tts")),
            Wanted(services=("semantic", "tone")),
            Wanted(labels={"at": "eu"}),
            Wanted(two_way=True),
            Wanted(exclude_node_ids=rng.sample(NODES, rng.randint(1, 4))),
            Wanted(preferred_node_id=rng.choice(NODES)),
            Wanted(preferred_node_id=rng.choice(NODES), strict=True),
        )
    )
    policy = rng.choice((*["random"] * 3, "spread", "sticky_pool", "least_loaded"))
    return msgspec.structs.replace(wanted, policy=policy, wait_ms=rng.choice((0, 0, 0, 150, 60_000)))


def some_hints(rng: Random) -> Hints:
    return rng.choice(
        (
            *[Hints()] * 4,
            Hints(bound_node_id=rng.choice(NODES)),
            Hints(last_node_id=rng.choice(NODES), last_pool=rng.choice(("blue", "red"))),
            Hints(seen_node_ids=rng.sample(NODES, rng.randint(1, 4))),
        )
    )


def some_dispatch(rng: Random) -> Dispatch:
    return Dispatch(
        again=rng.choice((*[None] * 6, rng.randrange(9), rng.randrange(99))),
        languages=rng.randrange(len(LANGUAGES)),
        limits=rng.choice(LIMITS),
        seed=rng.randrange(2**32),
        body=rng.choice(("", "hello")),
        wanted=some_wanted(rng),
        hints=some_hints(rng),
    )


_SAID: Final[tuple[tuple[str, dict[str, object]], ...]] = (
    ("ack", {}),
    ("started", {}),
    ("stopped", {}),
    ("deliver", {}),
    ("undeliver", {}),
    ("undeliver", {"unsure": True}),
    ("done", {}),
    ("done", {"result": "hallo", "result_ttl_ms": 700}),
    ("done", {"result": "hallo", "lease_ms": 300}),
    ("fail", {"reason": "broken"}),
    ("fail", {"reason": "NODE_OVERLOADED", "overloaded": True}),
    ("fail", {"reason": "NODE_OVERLOADED", "overloaded": True, "retry_after_ms": 120}),
    ("fail", {"reason": "NODE_OVERLOADED", "overloaded": True, "retry_after_ms": 3_600_000}),
)


def _report(rng: Random, aim: Aim) -> Report:
    flow, extra = rng.choice(_SAID)
    return Report(flow, aim, tuple(extra.items()))


def some_progress(rng: Random) -> Report:
    """What an honest node says of what it has."""
    return _report(rng, Aim("live", rng.randrange(8), rng.choice(("", "right"))))


def some_report(rng: Random) -> Report:
    """What anybody says of anything."""
    at = rng.choice((*["live"] * 3, *["fenced"] * 3, "past", "past", "ended", "foreign", "foreign", "next", "ghost"))
    return _report(rng, Aim(at, rng.randrange(8), rng.choice(("", "right", "right", "right", "0-old"))))


def some_cancel(rng: Random) -> OfJob:
    return OfJob("cancel", rng.randrange(8), rng.choice(("any", "any", "ended", "ghost")))


def some_release(rng: Random) -> OfJob:
    return OfJob("release", rng.randrange(8), rng.choice(("ended", "ended", "any", "ghost")))


def some_reap(rng: Random) -> Reap:
    return Reap(rng.choice((1, 2, 100)))


def some_relay(rng: Random) -> Relay:
    return Relay(rng.choice((100, 100, 1, 0)), rng.choice(("none", "all", "first", "invented")))


_ANYTHING: Final[tuple[Callable[[Random], Message], ...]] = (
    some_register,
    some_join,
    some_beat,
    some_intent,
    some_limit,
    some_fault,
    some_leave,
    some_disconnect,
    some_dispatch,
    some_dispatch,
    some_dispatch,
    some_progress,
    some_progress,
    some_progress,
    some_report,
    some_report,
    some_cancel,
    some_release,
    some_reap,
    some_relay,
)


def anything(rng: Random) -> Message:
    return rng.choice(_ANYTHING)(rng)
