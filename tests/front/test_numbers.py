"""Numbers that are taken out ahead: who comes often does not wait for the engine, and no number comes twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lingua_scheduler.config import Settings
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.enter_session import Entered
from lingua_scheduler.front import numbers
from lingua_scheduler.front.numbers import Numbers
from lingua_scheduler.front.purse import Purse
from lingua_scheduler.store.keys import cell_key, session_tag

if TYPE_CHECKING:
    import pytest

    from tests.support.world import World


def plenty(world: World, burst: int = 1_000) -> Numbers:
    return Numbers(
        world.engine, Settings.model_validate({"rates": {"utterances_per_s": 1_000, "utterances_burst": burst}})
    )


async def take(kept: Numbers, session_id: str = "s1", who: str = "ann") -> int | Refusal:
    number = kept.spend(session_id, who)
    if number is not None:
        return number
    entered = await kept.fetch(session_id, who)
    return entered if isinstance(entered, Refusal) else entered.utterance_index


async def test_whoever_comes_often_finds_the_next_numbers_here(world: World) -> None:
    kept = plenty(world)
    assert [await take(kept) for _ in range(20)] == [*range(20)]
    found = [kept.spend("s1", "ann") for _ in range(20)]
    # 1, 2, 4, 8 and 16 were taken out, one after the other.
    assert found == [*range(20, 31), *[None] * 9]


async def test_two_instances_give_no_number_twice(world: World) -> None:
    one, other = plenty(world), plenty(world)
    given = [await take(kept) for _ in range(40) for kept in (one, other)]
    assert len(set(given)) == 80


async def test_those_who_come_at_once_get_one_each(world: World) -> None:
    kept = plenty(world)
    await take(kept)
    given = await asyncio.gather(*(take(kept) for _ in range(50)))
    assert sorted(number for number in given if isinstance(number, int)) == [*range(1, 51)]


async def test_another_principal_finds_nothing_here(world: World) -> None:
    kept = plenty(world)
    for _ in range(4):
        await take(kept)
    assert kept.spend("s1", "bob") is None
    refusal = await take(kept, who="bob")
    assert isinstance(refusal, Refusal)
    assert refusal.code == "FORBIDDEN"


async def test_of_a_session_with_a_connection_nothing_is_kept(world: World) -> None:
    kept = plenty(world)
    await world.engine.command("HSET", cell_key(world.engine.prefix, session_tag("s1"), "session"), "owner", "x")
    for number in range(5):
        assert await kept.fetch("s1", "ann") == Entered(number, 1, "x")
        assert kept.spend("s1", "ann") is None


async def test_what_is_refused_is_refused_as_if_nothing_were_kept(world: World) -> None:
    kept = plenty(world, burst=100)
    answers = [await take(kept) for _ in range(110)]
    assert [answer for answer in answers if isinstance(answer, int)] == [*range(100)]


async def test_only_so_many_sessions_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MAX_KEPT", 2)
    kept = plenty(world)
    for session_id in ("s1", "s1", "s2", "s3"):
        await take(kept, session_id)
    assert [kept.spend(session_id, "ann") for session_id in ("s1", "s2", "s3")] == [None] * 3
    assert await take(kept, "s1") == 3


async def test_whoever_keeps_to_his_rate_has_all_of_his_burst_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four things at once, every two seconds, at two in a second: what was taken out ahead is spent, and not lost."""
    now_s = 0.0
    monkeypatch.setattr(numbers, "Purse", lambda burst, _: Purse(burst, lambda: now_s))
    rates = {"utterances_per_s": 2, "utterances_burst": 64}
    kept = Numbers(world.engine, Settings.model_validate({"rates": rates}))
    answers = []
    for _ in range(60):
        answers += [await take(kept) for _ in range(4)]
        world.now_ms += 2_000
        now_s += 2
    answers += [await take(kept) for _ in range(50)]
    assert [answer for answer in answers if isinstance(answer, Refusal)] == []
