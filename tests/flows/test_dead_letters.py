"""bury, unbury: what nobody could make use of is kept, with the reason, until somebody decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.letter import MAX_REASON_CHARS, DeadLetter, Parcel
from lingua_scheduler.flows.bury import Buried, bury
from lingua_scheduler.flows.unbury import Unburied, unbury
from lingua_scheduler.views.dead_letter import read_dead_letter
from lingua_scheduler.views.dead_letters import DeadLetters, read_dead_letters
from tests.support.mail import graves, letter
from tests.support.stage import T0, code_of

if TYPE_CHECKING:
    from tests.support.world import World

ONE = Parcel("a", "1700000000000-0", 10, letter("one"))
TWO = Parcel("b", "1700000000001-0", 3, letter("two"))
SAID = ["news", "c0.a", 1, "n1", "s1"]


async def test_a_dead_letter_is_kept_with_its_reason_and_count(world: World) -> None:
    assert await bury(world.engine, ONE, "nobody home") == Buried(True)
    kept, order = await graves(world)
    assert kept == {"1700000000000-0.a": ["a", "nobody home", 10, [*SAID, "one", "t1"], T0]}
    assert order == ["1700000000000-0.a"]
    dead = DeadLetter("a", "nobody home", 10, letter("one"), T0)
    assert await read_dead_letter(world.engine, ONE.id) == dead
    assert await read_dead_letters(world.engine) == DeadLetters([(ONE.id, dead)], 1)


async def test_burying_it_again_changes_nothing(world: World) -> None:
    await bury(world.engine, ONE, "first")
    before = await graves(world)
    world.now_ms += 1
    assert await bury(world.engine, ONE, "second") == Buried(False)
    assert await graves(world) == before


async def test_burials_of_one_tick_are_told_apart(world: World) -> None:
    answers = await asyncio.gather(*(bury(world.engine, parcel, "why") for parcel in (TWO, ONE, TWO)))
    assert answers == [Buried(True), Buried(True), Buried(False)]
    assert (await graves(world))[1] == [ONE.id, TWO.id]


async def test_a_dead_letter_is_taken_out_once(world: World) -> None:
    for parcel in (ONE, TWO):
        await bury(world.engine, parcel, "why")
    answers = await asyncio.gather(*(unbury(world.engine, ONE.id) for _ in range(2)))
    assert (answers[0], code_of(answers[1])) == (Unburied(), "UNKNOWN_LETTER")
    kept, order = await graves(world)
    assert (list(kept), order) == ([TWO.id], [TWO.id])
    assert code_of(await read_dead_letter(world.engine, ONE.id)) == "UNKNOWN_LETTER"
    await unbury(world.engine, TWO.id)
    assert await world.keys() == 0


async def test_pages_have_each_of_them_in_order(world: World) -> None:
    parcels = [Parcel("a", f"170000000000{number}-0", 10, letter(str(number))) for number in range(5)]
    for parcel in reversed(parcels):
        await bury(world.engine, parcel, "why")
    found: list[list[str]] = []
    after = ""
    while True:
        page = await read_dead_letters(world.engine, after, 2)
        assert isinstance(page, DeadLetters)
        if not page.page:
            break
        assert page.total == 5
        found.append([dead.letter.detail for _, dead in page.page])
        after = page.page[-1][0]
    assert found == [["0", "1"], ["2", "3"], ["4"]]


async def test_there_are_none(world: World) -> None:
    assert await read_dead_letters(world.engine) == DeadLetters([], 0)


async def test_whatever_the_reason_is_the_letter_is_kept(world: World) -> None:
    await bury(world.engine, ONE, "\ud800" + "x" * 1_000)
    dead = await read_dead_letter(world.engine, ONE.id)
    assert isinstance(dead, DeadLetter)
    assert dead.reason == "?" + "x" * (MAX_REASON_CHARS - 1)


@pytest.mark.parametrize(
    "wrong", [{"instance": "{a}"}, {"number": "1"}, {"deliveries": -1}, {"letter": None}, {"number": None}], ids=str
)
async def test_what_is_no_parcel_is_not_buried(world: World, wrong: dict[str, Any]) -> None:
    assert code_of(await bury(world.engine, msgspec.structs.replace(ONE, **wrong), "why")) == "INVALID_MESSAGE"
    nothing: Any = None
    assert code_of(await bury(world.engine, nothing, "why")) == "INVALID_MESSAGE"
    assert code_of(await bury(world.engine, ONE, nothing)) == "INVALID_MESSAGE"
    assert await world.keys() == 0


@pytest.mark.parametrize("junk", ["x" * 257, None, "\ud800", 1])
async def test_a_dead_letter_has_an_id(world: World, junk: Any) -> None:
    answers = [
        await unbury(world.engine, junk),
        await read_dead_letter(world.engine, junk),
        await read_dead_letters(world.engine, junk),
        await read_dead_letters(world.engine, "", 0),
    ]
    assert {code_of(answer) for answer in answers} == {"INVALID_MESSAGE"}
