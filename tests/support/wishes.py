"""Jobs that want something, nodes that cannot have them, and what they are told then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Choice, Standing
from lingua_scheduler.core.refusal import Breakdown, Refusal
from lingua_scheduler.core.wanted import Hints, Wanted
from lingua_scheduler.flows.cancel import cancel
from lingua_scheduler.flows.dispatch import Placed, Waiting, dispatch
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import Failed, fail
from lingua_scheduler.flows.heartbeat import heartbeat
from tests.support.stage import INCREMENT, MODULUS, MULTIPLIER, A, keep_alive, seed_for, sweep
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

#: The usual pipeline, and a voice.
SPOKEN: Final = ("asr", "nmt", "semantic", "tts")

#: Why a node that is known and could serve a job cannot have it now.
HINDRANCES: Final = ("full", "stale", "not_ready", "draining", "resting")

_PATIENT: Final = Limits(ack_ms=600_000, run_ms=600_000, timeout_ms=600_000)


def asking(**what: Any) -> dict[str, Any]:
    """The arguments of a dispatch, with the fields of `Wanted` and of `Hints` among them."""
    wanted = {name: what.pop(name) for name in Wanted.__struct_fields__ if name in what}
    hints = {name: what.pop(name) for name in Hints.__struct_fields__ if name in what}
    return {"seed": 1, **what, "wanted": Wanted(**wanted), "hints": Hints(**hints)}


async def ask(world: World, job_id: str = A, pair: str = "en:zh", **what: Any) -> Placed | Waiting | Refusal:
    """Dispatch a job that wants this."""
    src, tgt = pair.split(":")
    answer = await dispatch(world.engine, job_id, "s1", src, tgt, **asking(**what))
    assert isinstance(answer, Placed | Waiting | Refusal), answer
    return answer


async def given(world: World, job_id: str = A, pair: str = "en:zh", **what: Any) -> tuple[str, list[str]]:
    """The node that a job is given, and what stood against its wishes."""
    answer = await ask(world, job_id, pair, **what)
    assert isinstance(answer, Placed), answer
    return answer.node_id, (await choice(world, job_id)).reasons


async def choice(world: World, job_id: str = A) -> Choice:
    """Why a job is where it is."""
    return (await world.cell()).jobs[job_id].choice


async def failed(world: World, job_id: str = A) -> str:
    """Whom a job is given to when the node that has it fails it; "" if it has to wait."""
    job = (await world.cell()).jobs[job_id]
    answer = await fail(world.engine, job_id, job.attempt, job.node, reason="")
    assert isinstance(answer, Failed), answer
    return answer.node_id


async def hinder(world: World, node_id: str, why: str, pair: str = "en:zh") -> None:
    """Make a node with one slot unfit. What takes 35 seconds the others survive, but not their rest."""
    job_id = f"{CELL}.at-{node_id}"
    if why in {"full", "resting"}:
        busy: dict[str, Any] = {"preferred_node_id": node_id, "strict": True, "services": (), "limits": _PATIENT}
        assert await given(world, job_id, pair, **busy) == (node_id, [])
    if why == "resting":
        await fail(world.engine, job_id, 1, node_id, reason="", overloaded=True, retry_after_ms=20_000)
        await cancel(world.engine, job_id)
    if why == "not_ready":
        await heartbeat(world.engine, CELL, node_id, health="degraded")
    if why == "draining":
        await drain(world.engine, CELL, node_id)
    if why == "stale":
        others = [n for n, node in (await world.cell()).nodes.items() if node.standing < Standing.stale]
        world.now_ms += 34_999
        await keep_alive(world, *(other for other in others if other != node_id))
        world.now_ms += 1
        await sweep(world)
    assert Standing((await world.cell()).nodes[node_id].standing).name == why


def none_free(pair: str = "en:zh", /, **numbers: int) -> Refusal:
    """Capable nodes exist, none could take it now: these are why, and all other numbers are 0."""
    detail = f"{numbers['pool']} in the pool of {pair}; none can take a job now."
    return Refusal("ALL_CANDIDATES_FULL_OR_FAILED", detail, Breakdown(**numbers))


def incapable(missing: str, pair: str = "en:zh") -> Refusal:
    """No registered node could ever take it."""
    return Refusal("NO_CAPABLE_NODE", f"No registered node can serve {pair}: {missing}.")


def not_capable(node_id: str, pair: str = "en:zh") -> Refusal:
    """The node that it names could never take it."""
    detail = f"Node {node_id} is not registered, or cannot serve {pair} as asked."
    return Refusal("PREFERRED_NODE_NOT_CAPABLE", detail)


def unavailable(node_id: str, why: str) -> Refusal:
    """The node that it insists on cannot take it now."""
    return Refusal("PREFERRED_NODE_UNAVAILABLE", f"Node {node_id} cannot take a job now: it is {why}.")


def spread_seeds(count: int) -> list[int]:
    """Seeds whose first numbers are evenly spread over all that the generator gives."""
    return [seed_for((2 * k + 1) * MODULUS // (2 * count)) for k in range(count)]


def drawn(seed: int, nodes: list[tuple[str, int, int]], most: int = 2) -> str:
    """Who must be chosen of nodes (id, used, max) in the order of the index: the least loaded of `most` at random."""
    left, found = list(nodes), list[tuple[str, int, int]]()
    while left and len(found) < most:
        seed = (seed * MULTIPLIER + INCREMENT) % MODULUS
        found.append(left.pop(seed * len(left) // MODULUS))
    return min(found, key=lambda node: node[1] / node[2])[0]
