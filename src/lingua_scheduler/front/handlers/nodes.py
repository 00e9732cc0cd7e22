"""What nodes say over HTTP: register, heartbeat, poll, offline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.new_ids import new_node_id
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal, refuse
from lingua_scheduler.front.moving import tell_joined, tell_moved
from lingua_scheduler.front.nodes.housing import hear_beat, let_go, take_in
from lingua_scheduler.front.web import Route
from lingua_scheduler.protocol.fields import RunningAttempt
from lingua_scheduler.protocol.http import (
    HeartbeatAnswer,
    HeartbeatRequest,
    NodeRequest,
    OkAnswer,
    PollAnswer,
    PollRequest,
    RegisterAnswer,
    RegisterRequest,
    beating,
    read_heartbeat,
    read_offline,
    read_poll,
    read_register,
)
from lingua_scheduler.protocol.registration import registering

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.mailbox import Attempt
    from lingua_scheduler.front.web import Request, Said


async def register_node(desk: Desk, request: Request) -> Said:
    """A node joins, or comes back."""
    said: RegisterRequest = request.message
    # Before anything is waited for. The node may have given it up since, and gone elsewhere.
    came_ms = desk.clock() - request.lain_ms()
    node_id = said.node_id or new_node_id()
    slots = desk.settings.nodes.default_max_concurrent_jobs
    words = registering(said, slots=slots)
    credential = request.principal.name
    registered = await take_in(desk.directory, node_id, **words, credential=credential, opened_ms=came_ms)
    if isinstance(registered, Refusal):
        return registered
    # Before anything else is waited for: whoever registered last speaks for the node.
    desk.links.replace(node_id)
    tell_joined(desk, node_id, registered)
    await tell_moved(desk, node_id, registered)
    draining = registered.standing == Standing.draining
    return RegisterAnswer(
        ok=True,
        node_id=node_id,
        epoch=registered.epoch,
        cell=registered.cell,
        health="draining" if draining else said.health or "ready",
        heartbeat_interval_ms=desk.settings.nodes.heartbeat_interval_ms,
        node_secret=desk.auth.node_secret(node_id, request.principal, registered.epoch),
        pools=registered.pairs,
        warnings=registered.warnings,
    )


async def beat(desk: Desk, request: Request) -> Said:
    """A sign of life, and whatever has changed."""
    said: HeartbeatRequest = request.message
    said_ms = desk.clock.awake_ms
    beaten = await hear_beat(desk.directory, said.node_id, said.epoch or "", said_ms=said_ms, **beating(said))
    if isinstance(beaten, Refusal):
        return beaten
    return HeartbeatAnswer(
        ok=True,
        epoch=beaten.epoch,
        cancel=[RunningAttempt(job_id=job_id, attempt_id=attempt) for job_id, attempt in beaten.cancel],
        warnings=beaten.warnings or None,
        must_register=beaten.must_register or None,
    )


async def poll(desk: Desk, request: Request) -> Said:
    """The node's work; if there is none, what comes within `wait_ms`."""
    said: PollRequest = request.message
    taken = await _take(desk, said)
    if isinstance(taken, Refusal):
        return taken
    assigned = [await desk.delivery.assignment_of(job_id, attempt) for job_id, attempt in taken]
    return PollAnswer(jobs=[message for message in assigned if not isinstance(message, Refusal)])


async def _take(desk: Desk, said: PollRequest) -> list[Attempt] | Refusal:
    """What is in the node's mailbox, or comes in time. A poll is a sign of life for as long as it is open."""
    clock = asyncio.get_running_loop().time
    until, beat_ms = clock() + (said.wait_ms or 0) / 1000, desk.settings.nodes.socket_beat_ms
    while True:
        beaten = await hear_beat(desk.directory, said.node_id, said.epoch or "")
        if isinstance(beaten, Refusal):
            return beaten
        if beaten.must_register:
            return refuse("UNKNOWN_NODE", node_id=said.node_id)
        left_ms = max(int((until - clock()) * 1000), 0)
        taken = await desk.mailboxes.take(said.node_id, min(left_ms, beat_ms), desk.is_draining)
        if isinstance(taken, Refusal) or taken:
            return taken
        if left_ms <= beat_ms or desk.is_draining.is_set():
            return []


async def go_offline(desk: Desk, request: Request) -> Said:
    """The node is gone, and works on nothing any more."""
    said: NodeRequest = request.message
    left = await let_go(desk.directory, said.node_id, said.epoch or "")
    if isinstance(left, Refusal):
        return left
    desk.chronicler.note("node_left", said.node_id)
    return OkAnswer(ok=True)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/node/register",
        "node",
        register_node,
        "A node joins, or comes back.",
        answers=RegisterAnswer,
        reads=read_register,
        begins=True,
        refuses=("INVALID_CAPABILITY_SCHEMA", "NODE_ID_CONFLICT", "CELL_FULL", "HOME_GONE", "NODE_REPLACED"),
        tag="nodes",
    ),
    Route(
        "POST",
        "/v1/node/heartbeat",
        "node",
        beat,
        "A sign of life, and whatever has changed.",
        answers=HeartbeatAnswer,
        reads=read_heartbeat,
        refuses=("INVALID_CAPABILITY_SCHEMA", "UNKNOWN_NODE", "STALE_ATTEMPT"),
        tag="nodes",
        speaks_for="node_id",
    ),
    Route(
        "POST",
        "/v1/node/poll",
        "node",
        poll,
        "The node's work, at once or within `wait_ms`.",
        answers=PollAnswer,
        reads=read_poll,
        begins=True,
        refuses=("UNKNOWN_NODE", "STALE_ATTEMPT"),
        tag="nodes",
        speaks_for="node_id",
    ),
    Route(
        "POST",
        "/v1/node/offline",
        "node",
        go_offline,
        "The node is gone.",
        answers=OkAnswer,
        reads=read_offline,
        refuses=("UNKNOWN_NODE", "STALE_ATTEMPT"),
        tag="nodes",
        speaks_for="node_id",
    ),
)
