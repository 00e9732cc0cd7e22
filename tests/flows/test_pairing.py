"""Pairing codes: six digits that stand for a node, for five minutes."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.wanted import Wanted
from lingua_scheduler.flows.dispatch import Placed, dispatch
from lingua_scheduler.flows.pair import Paired, Taken, pair
from lingua_scheduler.front.directory import Directory
from lingua_scheduler.front.pairing import offer_pairing
from lingua_scheduler.store.keys import cell_key, pairing_tag
from lingua_scheduler.views.pairing import Pairing, read_pairing
from tests.support.stage import A, code_of, join
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

CODE = "012345"


def key_of(world: World, code: str = CODE) -> str:
    return cell_key(world.engine.prefix, pairing_tag(code), "pairing")


async def seconds_left(world: World) -> int:
    return round(int(await world.engine.command("PTTL", key_of(world))) / 1000)


async def test_a_code_stands_for_its_node_for_five_minutes(world: World) -> None:
    assert await pair(world.engine, CELL, "n1", CODE) == Paired()
    assert await read_pairing(world.engine, CODE) == Pairing(CELL, "n1")
    assert await seconds_left(world) == 300


async def test_a_code_may_be_used_as_often_as_its_time_allows(world: World) -> None:
    await pair(world.engine, CELL, "n1", CODE)
    found = await asyncio.gather(*(read_pairing(world.engine, CODE) for _ in range(3)))
    assert found == [Pairing(CELL, "n1")] * 3


async def test_a_code_is_not_taken_from_its_node(world: World) -> None:
    await pair(world.engine, CELL, "n1", CODE)
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    assert await pair(world.engine, CELL, "n2", CODE) == Taken()
    assert await pair(world.engine, "c1", "n1", CODE) == Taken()
    assert (await read_pairing(world.engine, CODE), await seconds_left(world)) == (Pairing(CELL, "n1"), 5)


async def test_the_same_word_again_gives_it_its_full_time(world: World) -> None:
    await pair(world.engine, CELL, "n1", CODE)
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    assert await pair(world.engine, CELL, "n1", CODE) == Paired()
    assert await seconds_left(world) == 300


async def test_of_two_in_one_tick_the_first_has_the_code(world: World) -> None:
    answers = await asyncio.gather(*(pair(world.engine, CELL, node_id, CODE) for node_id in ("n1", "n2")))
    assert answers == [Paired(), Taken()]
    assert await read_pairing(world.engine, CODE) == Pairing(CELL, "n1")


async def test_a_code_that_nobody_gave_or_whose_time_is_over_is_refused(world: World) -> None:
    assert code_of(await read_pairing(world.engine, CODE)) == "INVALID_PAIRING_CODE"
    await pair(world.engine, CELL, "n1", CODE)
    await world.engine.command("PEXPIRE", key_of(world), 0)
    refusal = await read_pairing(world.engine, CODE)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.status, refusal.retryable) == ("INVALID_PAIRING_CODE", 404, False)


@pytest.mark.parametrize("code", ["", "12345", "1234567", "12345a", "１２３４５６", 123456, None, "{x}:12"])
async def test_what_is_no_code_is_invalid_and_writes_nothing(world: World, code: str) -> None:
    assert code_of(await pair(world.engine, CELL, "n1", code)) == "INVALID_MESSAGE"
    assert code_of(await read_pairing(world.engine, code)) == "INVALID_MESSAGE"
    assert await world.keys() == 0


@pytest.mark.parametrize(("cell", "node_id"), [("C 0", "n1"), (CELL, "n{1}"), (CELL, "")])
async def test_a_node_that_cannot_be_is_invalid(world: World, cell: str, node_id: str) -> None:
    assert code_of(await pair(world.engine, cell, node_id, CODE)) == "INVALID_MESSAGE"
    assert code_of(await read_pairing(world.engine, CODE)) == "INVALID_PAIRING_CODE"


async def test_an_offer_is_a_new_code_for_a_registered_node(world: World) -> None:
    await join(world)
    codes = [await offer_pairing(Directory(world.engine, CELL), "n1") for _ in range(2)]
    assert [code_of(code) for code in codes] == ["", ""]
    assert await asyncio.gather(*(read_pairing(world.engine, str(code)) for code in codes)) == [Pairing(CELL, "n1")] * 2


async def test_nobody_is_paired_with_a_node_that_is_not_there(world: World) -> None:
    assert code_of(await offer_pairing(Directory(world.engine, CELL), "n1")) == "UNKNOWN_NODE"


async def test_a_code_that_is_in_use_is_drawn_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await join(world)
    await pair(world.engine, CELL, "n2", "000007")
    drawn = iter([7, 7, 8])
    monkeypatch.setattr(secrets, "randbelow", lambda _: next(drawn))
    assert await offer_pairing(Directory(world.engine, CELL), "n1") == "000008"


async def test_when_all_codes_are_in_use_that_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await join(world)
    await pair(world.engine, CELL, "n2", "000007")
    monkeypatch.setattr(secrets, "randbelow", lambda _: 7)
    with pytest.raises(LinguaError, match="in use"):
        await offer_pairing(Directory(world.engine, CELL), "n1")


async def test_a_paired_session_takes_its_private_node_and_no_other(world: World) -> None:
    await join(world, "mine", accept_public_jobs=False, max_concurrent_jobs=1)
    await join(world, "public")
    code = await offer_pairing(Directory(world.engine, CELL), "mine")
    pairing = await read_pairing(world.engine, str(code))
    assert isinstance(pairing, Pairing)
    wanted = Wanted(preferred_node_id=pairing.node_id, strict=True)
    placed = await dispatch(world.engine, A, "s1", "en", "zh", wanted=wanted)
    assert isinstance(placed, Placed)
    assert placed.node_id == "mine"
    second = await dispatch(world.engine, f"{CELL}.second", "s1", "en", "zh", wanted=wanted)
    assert code_of(second) == "PREFERRED_NODE_UNAVAILABLE"
