"""claim, seal, disclaim: what a request id stands for, and for how long."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lingua_scheduler.core.records import MAX_CLAIMANTS, Claim
from lingua_scheduler.flows.claim import Claimed, claim
from lingua_scheduler.flows.disclaim import Freed, disclaim
from lingua_scheduler.flows.seal import Sealed, seal
from lingua_scheduler.store.keys import cell_key, request_tag
from tests.support.stage import A, B, C, code_of

if TYPE_CHECKING:
    from tests.support.world import World

ONE, OTHER = (hashlib.sha256(body).hexdigest() for body in (b"one", b"other"))
WHO = ("someone", "r1")
LEASE_MS = 90_000


def key_of(world: World, request: tuple[str, str] = WHO) -> str:
    return cell_key(world.engine.prefix, request_tag(*request), "claim")


async def kept(world: World, request: tuple[str, str] = WHO) -> tuple[Claim, int] | None:
    """The claim, and how many seconds it will live."""
    packed = await world.engine.command("GET", key_of(world, request))
    if packed is None:
        return None
    left_ms = await world.engine.command("PTTL", key_of(world, request))
    return msgspec.msgpack.decode(packed, type=Claim), round(left_ms / 1000)


async def test_the_first_claim_gets_its_own_job_and_a_lease(world: World) -> None:
    assert await claim(world.engine, *WHO, ONE, A) == Claimed(A, False)
    assert await kept(world) == (Claim(ONE, A, 0, [A]), 90)


async def test_another_claim_with_the_same_body_gets_the_first_one_s_job(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    assert await claim(world.engine, *WHO, ONE, B) == Claimed(A, False)
    assert await kept(world) == (Claim(ONE, A, 0, [A, B]), 90)


async def test_a_claim_that_is_sent_again_is_one_claim(world: World) -> None:
    for _ in range(2):
        assert await claim(world.engine, *WHO, ONE, A) == Claimed(A, False)
    assert await kept(world) == (Claim(ONE, A, 0, [A]), 90)


async def test_a_claim_renews_the_lease(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    await claim(world.engine, *WHO, ONE, B)
    assert await kept(world) == (Claim(ONE, A, 0, [A, B]), 90)


async def test_it_outlasts_the_job_that_may_be_made_under_it(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A, timeout_ms=600_000)
    assert await kept(world) == (Claim(ONE, A, 0, [A]), 690)
    await world.engine.command("PEXPIRE", key_of(world), 5_000)
    await claim(world.engine, *WHO, ONE, B, timeout_ms=600_000)
    assert await kept(world) == (Claim(ONE, A, 0, [A, B]), 690)


@pytest.mark.parametrize("timeout_ms", [-1, 86_400_001, True, None])
async def test_it_is_not_held_for_ever(world: World, timeout_ms: Any) -> None:
    assert code_of(await claim(world.engine, *WHO, ONE, A, timeout_ms=timeout_ms)) == "INVALID_MESSAGE"
    assert await kept(world) is None


@pytest.mark.parametrize("sealed", [False, True])
async def test_another_body_is_a_conflict_and_changes_nothing(world: World, sealed: bool) -> None:
    await claim(world.engine, *WHO, ONE, A)
    if sealed:
        await seal(world.engine, *WHO, ONE, A, 1_000_000)
    before = await kept(world)
    refused = await claim(world.engine, *WHO, OTHER, B)
    assert code_of(refused) == "IDEMPOTENCY_CONFLICT"
    assert await kept(world) == before


async def test_claims_of_one_tick_agree(world: World) -> None:
    answers = await asyncio.gather(*(claim(world.engine, *WHO, ONE, job_id) for job_id in (A, B, C)))
    assert answers == [Claimed(A, False)] * 3
    assert await kept(world) == (Claim(ONE, A, 0, [A, B, C]), 90)


async def test_the_same_id_of_another_principal_is_another_request(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    assert await claim(world.engine, "another", "r1", OTHER, B) == Claimed(B, False)


async def test_a_sealed_claim_stays_as_long_as_it_is_told_and_says_so(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    assert await seal(world.engine, *WHO, ONE, A, 3_660_000) == Sealed()
    assert await kept(world) == (Claim(ONE, A, 1, []), 3_660)
    assert await claim(world.engine, *WHO, ONE, B) == Claimed(A, True)
    assert await kept(world) == (Claim(ONE, A, 1, []), 3_660)


async def test_a_seal_that_is_repeated_changes_nothing(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    await seal(world.engine, *WHO, ONE, A, 3_660_000)
    assert await seal(world.engine, *WHO, ONE, A, 1_000) == Sealed()
    assert await kept(world) == (Claim(ONE, A, 1, []), 3_660)


async def test_a_seal_after_the_lease_was_over_binds_the_job_all_the_same(world: World) -> None:
    assert await seal(world.engine, *WHO, ONE, A, 3_660_000) == Sealed()
    assert await kept(world) == (Claim(ONE, A, 1, []), 3_660)


async def test_a_seal_of_a_job_that_the_id_no_longer_stands_for_is_refused(world: World) -> None:
    await claim(world.engine, *WHO, ONE, B)
    before = await kept(world)
    assert code_of(await seal(world.engine, *WHO, ONE, A, 1_000)) == "IDEMPOTENCY_CONFLICT"
    assert await kept(world) == before


async def test_a_job_whose_record_is_gone_makes_room_for_another(world: World) -> None:
    await seal(world.engine, *WHO, ONE, A, 3_660_000)
    assert await claim(world.engine, *WHO, ONE, B, instead_of=A) == Claimed(B, False)
    assert await kept(world) == (Claim(ONE, B, 0, [B]), 90)
    assert await claim(world.engine, *WHO, ONE, C, instead_of=A) == Claimed(B, False)


async def test_only_the_sealed_job_that_was_named_makes_room(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    assert await claim(world.engine, *WHO, ONE, B, instead_of=A) == Claimed(A, False)
    await seal(world.engine, *WHO, ONE, A, 1_000_000)
    assert await claim(world.engine, *WHO, ONE, B, instead_of=C) == Claimed(A, True)


async def test_a_refusal_frees_the_id(world: World) -> None:
    await claim(world.engine, *WHO, ONE, A)
    assert await disclaim(world.engine, *WHO, A, A) == Freed(True)
    assert await kept(world) is None
    assert await claim(world.engine, *WHO, OTHER, B) == Claimed(B, False)


async def test_a_refusal_frees_nothing_while_another_is_about_to_make_the_job(world: World) -> None:
    for job_id in (A, B):
        await claim(world.engine, *WHO, ONE, job_id)
    await world.engine.command("PEXPIRE", key_of(world), 50_000)
    for _ in range(2):
        assert await disclaim(world.engine, *WHO, A, A) == Freed(False)
        assert await kept(world) == (Claim(ONE, A, 0, [B]), 50)
    assert await disclaim(world.engine, *WHO, A, B) == Freed(True)
    assert await kept(world) is None
    assert await disclaim(world.engine, *WHO, A, B) == Freed(True)


async def test_a_late_refusal_frees_neither_a_sealed_claim_nor_another_job_s(world: World) -> None:
    await seal(world.engine, *WHO, ONE, A, 3_660_000)
    assert await disclaim(world.engine, *WHO, A, A) == Freed(False)
    assert await kept(world) == (Claim(ONE, A, 1, []), 3_660)
    await claim(world.engine, *WHO, ONE, B, instead_of=A)
    assert await disclaim(world.engine, *WHO, A, B) == Freed(False)
    assert await kept(world) == (Claim(ONE, B, 0, [B]), 90)


async def test_more_claimants_than_can_be_kept_leave_the_id_to_its_lease(world: World) -> None:
    offers = [f"c0.{number}" for number in range(MAX_CLAIMANTS + 2)]
    for job_id in offers:
        await claim(world.engine, *WHO, ONE, job_id)
    found = await kept(world)
    assert found is not None
    assert found[0].claimants == [*offers[:MAX_CLAIMANTS], "*"]
    for job_id in offers:
        assert await disclaim(world.engine, *WHO, offers[0], job_id) == Freed(False)
    assert await kept(world) == (Claim(ONE, offers[0], 0, ["*"]), 90)


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (claim, ("{x}", "r1", ONE, A)),
        (claim, ("someone", "r:1", ONE, A)),
        (claim, ("someone", "r1", "one", A)),
        (claim, ("someone", "r1", ONE.upper(), A)),
        (claim, ("someone", "r1", ONE, "job")),
        (seal, ("someone", "r1", ONE, A, 0)),
        (seal, ("someone", "r1", ONE, "", 1)),
        (disclaim, ("someone", "r1", A, "c0")),
        (disclaim, ("", "r1", A, A)),
    ],
)
async def test_what_cannot_be_right_never_reaches_the_engine(world: World, flow: object, words: tuple[object]) -> None:
    answer = await flow(world.engine, *words)  # type: ignore[operator]  # all of them are called alike
    assert code_of(answer) == "INVALID_MESSAGE"
    assert await kept(world) is None


async def test_what_a_claim_replaces_must_be_a_job(world: World) -> None:
    assert code_of(await claim(world.engine, *WHO, ONE, A, instead_of="{c0}.1")) == "INVALID_MESSAGE"
