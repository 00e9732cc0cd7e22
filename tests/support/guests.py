"""Two cells and a job between them: its home, and the cell where it is a guest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.audit import audit_cell, audit_guests
from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.flows.bring_back import bring_back
from lingua_scheduler.flows.host import Hosted, TurnedAway, host
from lingua_scheduler.flows.leave import leave
from lingua_scheduler.flows.lodge import Lodged, lodge
from lingua_scheduler.flows.reap import reap
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.flows.relay import Taken, relay
from lingua_scheduler.flows.send_out import SentOut, send_out
from lingua_scheduler.flows.unhost import unhost
from lingua_scheduler.views.cell import read_cell
from tests.support.cells import ANY_TIME_MS
from tests.support.stage import PLAIN, A, place
from tests.support.world import CELL

if TYPE_CHECKING:
    from lingua_scheduler.core.records import Event
    from tests.support.world import World

#: The cell where a job is a guest.
THERE: Final = "c1"
LONG: Final = Limits(timeout_ms=600_000)


async def join_in(world: World, cell: str, node_id: str, **said: Any) -> Registered:
    """A node with one slot registers in a cell."""
    answer = await register(
        world.engine, cell, node_id, **(PLAIN | {"max_concurrent_jobs": 1, "nonce": node_id} | said)
    )
    assert isinstance(answer, Registered), answer
    return answer


async def strand(world: World, job_id: str = A, **asked: Any) -> None:
    """A job whose only node at home has left."""
    await join_in(world, CELL, "near")
    await place(world, job_id, **asked)
    await leave(world.engine, CELL, "near")
    await forget_mail(world, CELL)


async def cells(world: World) -> dict[str, Cell]:
    """Both cells, as they are."""
    found = {name: await read_cell(world.engine, name) for name in (CELL, THERE)}
    assert all(isinstance(cell, Cell) for cell in found.values())
    return found  # type: ignore[return-value] # it was looked at


async def check(world: World) -> dict[str, Cell]:
    """Every invariant holds, in each cell and between them."""
    found = await cells(world)
    broken = [*audit_guests(found), *(wrong for cell in found.values() for wrong in audit_cell(cell, ANY_TIME_MS))]
    assert not broken, broken
    return found


async def sent(world: World, job_id: str = A) -> SentOut:
    """The first step."""
    answer = await send_out(world.engine, job_id, THERE)
    assert isinstance(answer, SentOut), answer
    return answer


async def hosted(world: World, asked: SentOut, job_id: str = A) -> Hosted | TurnedAway:
    """The second step."""
    answer = await host(
        world.engine, THERE, job_id, asked.attempt_id, asked.deadline_at_ms, asked.seed, asked.had, asked.ticket
    )
    assert isinstance(answer, Hosted | TurnedAway), answer
    return answer


async def lodged(world: World, asked: SentOut, there: Hosted, job_id: str = A) -> bool:
    """The third step; whether it counted."""
    at = (there.node_id, there.epoch, there.acks, there.chosen, there.reasons)
    return isinstance(await lodge(world.engine, job_id, asked.attempt_id, *at), Lodged)


async def settle_in(world: World, job_id: str = A) -> Hosted:
    """All three steps."""
    asked = await sent(world, job_id)
    there = await hosted(world, asked, job_id)
    assert isinstance(there, Hosted), there
    assert await lodged(world, asked, there, job_id)
    return there


async def carry(world: World, event: Event) -> None:
    """What a relayer does with an event of guests."""
    if event.kind == "let_go":
        cell, how, deadline = event.detail.split(" ")
        await unhost(world.engine, cell, event.job, event.attempt, event.node, how, int(deadline))
    if event.kind == "guest_lost":
        await bring_back(world.engine, event.job, event.attempt, *event.detail.split(" "))


async def mail(world: World, cell: str) -> list[Event]:
    """Whatever is in the outbox of a cell."""
    taken = await relay(world.engine, cell)
    assert isinstance(taken, Taken), taken
    return taken.events


async def forget_mail(world: World, cell: str) -> None:
    """Nobody cares for what happened so far."""
    await relay(world.engine, cell, await mail(world, cell), 0)


async def deliver_mail(world: World) -> None:
    """Both outboxes are emptied, until nothing follows from what was in them."""
    found = True
    while found:
        found = False
        for cell in (CELL, THERE):
            events = await mail(world, cell)
            for event in events:
                await carry(world, event)
            if events:
                await relay(world.engine, cell, events, 0)
                found = True


async def sweep_all(world: World) -> None:
    """What is overdue in either cell is settled."""
    for cell in (CELL, THERE):
        await reap(world.engine, cell)
