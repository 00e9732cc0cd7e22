"""The instances that share the engine, and the letters that none of them could use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.post import post
from lingua_scheduler.flows.unbury import unbury
from lingua_scheduler.front.instances import see_instances
from lingua_scheduler.front.paging import CURSOR, LIMIT, asked_page, page_of
from lingua_scheduler.front.web import Query, Route
from lingua_scheduler.protocol.cluster import (
    ClusterAnswer,
    DeadLetterAnswer,
    DeadLettersAnswer,
    DeletedAnswer,
    Inbox,
    InstanceAnswer,
    InstanceNumbers,
    InstancesAnswer,
    ReplayAnswer,
)
from lingua_scheduler.views.dead_letter import read_dead_letter
from lingua_scheduler.views.dead_letters import read_dead_letters

if TYPE_CHECKING:
    from lingua_scheduler.core.letter import DeadLetter, Presence
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.instances import Seen
    from lingua_scheduler.front.web import Request, Said


async def list_instances(desk: Desk, request: Request) -> Said:
    """A page of the schedulers that are there, by name. Perhaps only those that stop, or do not."""
    draining = request.query.get("draining")
    shown = {
        seen.instance_id: _instance(seen.presence, seen.seen_at_ms)
        for seen in await see_instances(desk)
        if seen.presence is not None and (draining is None or seen.presence.draining == (draining == "true"))
    }
    page, cursor = page_of(shown, request.query)
    return InstancesAnswer(instances=page, cursor=cursor)


def _instance(presence: Presence, seen_at_ms: int) -> InstanceAnswer:
    return InstanceAnswer(
        instance_id=presence.instance,
        started_at_ms=presence.started_at_ms,
        seen_at_ms=seen_at_ms,
        version=presence.version,
        draining=presence.draining,
        nodes=presence.nodes,
        sessions=presence.sessions,
        host=presence.host,
        pid=presence.pid,
        url=presence.url,
    )


async def show_cluster(desk: Desk, _request: Request) -> Said:
    """All instances in numbers, and how many dead letters there are."""
    dead = await read_dead_letters(desk.engine, limit=1)
    if isinstance(dead, Refusal):
        return dead
    now_ms = desk.clock()
    seen = sorted(await see_instances(desk), key=lambda one: one.instance_id)
    return ClusterAnswer(
        generated_at_ms=now_ms, instances=[_numbers(one, now_ms) for one in seen], dead_letters=dead.total
    )


def _numbers(seen: Seen, now_ms: int) -> InstanceNumbers:
    presence, inbox = seen.presence, Inbox(letters=seen.letters, pending=seen.taken)
    if presence is None:
        return InstanceNumbers(instance_id=seen.instance_id, alive=False, seen_at_ms=seen.seen_at_ms, inbox=inbox)
    return InstanceNumbers(
        instance_id=seen.instance_id,
        alive=True,
        seen_at_ms=seen.seen_at_ms,
        inbox=inbox,
        version=presence.version,
        draining=presence.draining,
        uptime_ms=max(0, now_ms - presence.started_at_ms),
        nodes=presence.nodes,
        sessions=presence.sessions,
    )


async def list_dead_letters(desk: Desk, request: Request) -> Said:
    """A page of the dead letters, the oldest first."""
    after, limit = asked_page(request.query)
    found = await read_dead_letters(desk.engine, after, limit)
    if isinstance(found, Refusal):
        return found
    is_last = len(found.page) < limit
    return DeadLettersAnswer(
        letters=[_dead_letter(letter_id, dead) for letter_id, dead in found.page],
        total=found.total,
        cursor=None if is_last else found.page[-1][0],
    )


def _dead_letter(letter_id: str, dead: DeadLetter) -> DeadLetterAnswer:
    letter = dead.letter
    return DeadLetterAnswer(
        id=letter_id,
        instance_id=dead.instance,
        reason=dead.reason,
        deliveries=dead.deliveries,
        buried_at_ms=dead.buried_at_ms,
        kind=letter.kind,
        job_id=letter.job,
        attempt_id=letter.attempt,
        node_id=letter.node,
        session_id=letter.session,
        detail=letter.detail,
        trace_id=letter.trace,
    )


async def replay(desk: Desk, request: Request) -> Said:
    """Send a dead letter again: to whom it was sent, or, if that one is gone, to this instance, which passes it on.

    It is taken out when it lies in an inbox. Whoever dies in between leaves it in both: then it comes once more.
    """
    letter_id = request.named["letter"]
    dead = await read_dead_letter(desk.engine, letter_id)
    if isinstance(dead, Refusal):
        return dead
    target = dead.instance
    sent = await post(desk.engine, target, dead.letter)
    if isinstance(sent, Refusal) and sent.code == "INSTANCE_GONE":
        target = desk.instance_id
        sent = await post(desk.engine, target, dead.letter)
    if isinstance(sent, Refusal):
        return sent
    await unbury(desk.engine, letter_id)
    return ReplayAnswer(ok=True, id=letter_id, instance_id=target)


async def delete(desk: Desk, request: Request) -> Said:
    """Forget a dead letter."""
    letter_id = request.named["letter"]
    gone = await unbury(desk.engine, letter_id)
    return gone if isinstance(gone, Refusal) else DeletedAnswer(ok=True, id=letter_id)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/instances",
        "admin",
        list_instances,
        "A page of the schedulers that share the engine.",
        answers=InstancesAnswer,
        query=(
            LIMIT,
            CURSOR,
            Query("draining", "Only those that are about to stop; or, with `false`, the others.", bool),
        ),
        tag="fleet",
    ),
    Route(
        "GET",
        "/api/v1/cluster",
        "admin",
        show_cluster,
        "The schedulers in numbers: what each holds, and how full its inbox is.",
        answers=ClusterAnswer,
        tag="fleet",
    ),
    Route(
        "GET",
        "/v1/dlq",
        "admin",
        list_dead_letters,
        "A page of the letters between schedulers that nobody could use.",
        answers=DeadLettersAnswer,
        query=(LIMIT, CURSOR),
        tag="fleet",
    ),
    Route(
        "POST",
        "/v1/dlq/{letter}/replay",
        "admin",
        replay,
        "Send a dead letter again.",
        answers=ReplayAnswer,
        refuses=("UNKNOWN_LETTER", "INSTANCE_GONE", "INBOX_FULL"),
        tag="fleet",
        act="replay",
        acts_on="letter",
    ),
    Route(
        "DELETE",
        "/v1/dlq/{letter}",
        "admin",
        delete,
        "Forget a dead letter.",
        answers=DeletedAnswer,
        refuses=("UNKNOWN_LETTER",),
        tag="fleet",
        act="delete",
        acts_on="letter",
    ),
)
