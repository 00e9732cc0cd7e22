"""Instances and their letters, without any process behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.letter import Letter, Presence
from lingua_scheduler.flows.appear import Appeared, appear
from lingua_scheduler.flows.collect import collect
from lingua_scheduler.flows.enlist import Enlisted, enlist
from lingua_scheduler.flows.post import Sent, post
from lingua_scheduler.store.keys import DEAD_LETTERS, DIRECTORY, cell_key, instance_tag
from lingua_scheduler.views.instance import InstanceView, read_instance

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine
    from tests.support.world import World


def presence_of(instance_id: str, *, nodes: int = 0) -> Presence:
    return Presence(instance_id, 1_000, "0.1.0", "here", 7, "http://127.0.0.1:5010", nodes, 0, False)


def letter(detail: str = "one") -> Letter:
    return Letter("news", "c0.a", 1, "n1", "s1", detail, "t1")


async def arrive(engine: Engine, *instance_ids: str) -> int:
    """Instances that beat once; the beat of the last."""
    beat = 0
    for instance_id in instance_ids:
        enlisted = await enlist(engine, instance_id)
        assert isinstance(enlisted, Enlisted)
        assert isinstance(await appear(engine, presence_of(instance_id), enlisted.beat), Appeared)
        beat = enlisted.beat
    return beat


async def send(engine: Engine, instance_id: str, *details: str) -> list[str]:
    """Letters to an instance, and their numbers."""
    numbers = []
    for detail in details:
        sent = await post(engine, instance_id, letter(detail))
        assert isinstance(sent, Sent), sent
        numbers.append(sent.number)
    return numbers


async def read(engine: Engine, instance_id: str, reader: str = "", limit: int = 100) -> list[str]:
    """Take the new letters of an instance, and what they say."""
    answer = await collect(engine, instance_id, reader or instance_id, limit)
    return [found.detail for _, _, found in answer.letters]  # type: ignore[union-attr]  # the name is right


async def die(engine: Engine, *instance_ids: str) -> None:
    """Their presence ends, as it does when nobody beats."""
    for instance_id in instance_ids:
        await engine.command("DEL", key(engine, instance_id, "presence"))


async def rest(engine: Engine, instance_id: str, reader: str, number: str, for_ms: int) -> None:
    """Let a letter lie for so long with whoever took it."""
    inbox = key(engine, instance_id, "inbox")
    await engine.command("XCLAIM", inbox, "readers", reader, 0, number, "IDLE", for_ms, "JUSTID")


def key(engine: Engine, instance_id: str, name: str) -> str:
    return cell_key(engine.prefix, instance_tag(instance_id), name)


async def look(engine: Engine, instance_id: str) -> tuple[bool, int, int]:
    """Whether it is there, how many letters it has, how many of them somebody has taken."""
    seen = await read_instance(engine, instance_id)
    assert isinstance(seen, InstanceView)
    return bool(seen.presence), seen.letters, seen.taken


async def pending(engine: Engine, instance_id: str) -> dict[str, tuple[str, int]]:
    """By the number of a letter, who has taken it and how often it was handed out."""
    found = await engine.command("XPENDING", key(engine, instance_id, "inbox"), "readers", "-", "+", 1_000)
    return {number.decode(): (reader.decode(), deliveries) for number, reader, _, deliveries in found}


async def listed(world: World) -> dict[str, int]:
    """The directory as it is kept."""
    found = await world.engine.command(
        "ZRANGE", cell_key(world.engine.prefix, DIRECTORY, "instances"), 0, -1, "WITHSCORES"
    )
    return {name.decode(): int(beat) for name, beat in zip(found[::2], found[1::2], strict=True)}


async def graves(world: World) -> tuple[dict[str, object], list[str]]:
    """The dead letters as they are kept, and their order."""
    kept = await world.engine.command("HGETALL", cell_key(world.engine.prefix, DEAD_LETTERS, "dead"))
    order = await world.engine.command("ZRANGE", cell_key(world.engine.prefix, DEAD_LETTERS, "dead_ids"), 0, -1)
    dead = {name.decode(): msgspec.msgpack.decode(packed) for name, packed in zip(kept[::2], kept[1::2], strict=True)}
    return dead, [name.decode() for name in order]
