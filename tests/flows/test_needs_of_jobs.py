"""What a job needs of a node beside its pair: services, a voice, the way back, labels, permission."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.needs import USUAL
from lingua_scheduler.core.records import Choice
from lingua_scheduler.flows.dispatch import Placed
from lingua_scheduler.flows.drain import drain
from lingua_scheduler.flows.fail import fail
from lingua_scheduler.flows.heartbeat import heartbeat
from lingua_scheduler.flows.resume import resume
from tests.support.cells import watch
from tests.support.stage import A, B, C, join, nodes_of, place
from tests.support.wishes import (
    HINDRANCES,
    SPOKEN,
    ask,
    choice,
    given,
    hinder,
    incapable,
    none_free,
    unavailable,
)
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

NOT_ALL = "none has all of"
NO_REPAIR = "none takes {}, which needs semantic repair (and asr) for it and a pair from it"
NUMBERS = itertools.count()


async def takers(world: World, pair: str = "en:zh", **what: Any) -> set[str]:
    """Who takes such jobs, when there are more of them than anybody has room for."""
    names = [f"{CELL}.{next(NUMBERS)}" for _ in range(16)]
    answers = await asyncio.gather(*(ask(world, name, pair, **what) for name in names))
    assert not isinstance(answers[-1], Placed)
    return {answer.node_id for answer in answers if isinstance(answer, Placed)}


# Services.


@pytest.mark.parametrize("needed", [False, True], ids=["not needed", "needed"])
@pytest.mark.parametrize("service", SERVICES)
async def test_a_node_that_has_not_got_a_service_gets_no_job_that_needs_it(
    world: World, service: str, needed: bool
) -> None:
    await join(world, services={service: False}, tts_langs=["zh"])
    services = [name for name in SERVICES if needed or name != service]
    answer, changes = await watch(world, ask(world, services=services))
    if needed:
        told = incapable(f"1 serve the pair, but none has the service {service}")
        assert (answer, changes) == (told, {})
    else:
        assert isinstance(answer, Placed)


@pytest.mark.parametrize("services", [SERVICES, USUAL, ["nmt"], []], ids=str)
async def test_a_field_node_without_semantic_repair_is_in_no_pool_whatever_a_job_needs(
    world: World, services: list[str]
) -> None:
    await join(world, services={"semantic": False}, tts_langs=["zh"], lenient=True)
    assert await watch(world, ask(world, services=services)) == (incapable(NO_REPAIR.format("en")), {})


@pytest.mark.parametrize("declared", [{}, dict.fromkeys(SERVICES, True), {"tone": None}, {"tone": True}], ids=str)
async def test_services_that_are_not_declared_count_as_there(world: World, declared: dict[str, bool | None]) -> None:
    await join(world, services=declared, tts_langs=["zh"])
    assert await given(world, services=SERVICES) == ("n1", [])


async def test_of_several_nodes_only_those_with_all_services_are_candidates(world: World) -> None:
    """What one lacks another may have: only who lacks nothing counts."""
    await join(world, "n1", services={"asr": False})
    await join(world, "n2", services={"nmt": False, "tts": True})
    await join(world, "n3", services={"tone": False})
    await join(world, "n4")
    assert await takers(world) == {"n3", "n4"}
    assert await takers(world, services=["asr"]) == {"n2"}
    assert await takers(world, services=["tone", "nmt"]) == {"n1"}
    refused = ask(world, services=["tone", "nmt"])
    assert await watch(world, refused) == (none_free(pool=4, full=2, no_service=2), {})


async def test_the_usual_pipeline_needs_no_voice_and_no_tone(world: World) -> None:
    await join(world, services={"tts": False, "tone": False})
    assert (await place(world)).node_id == "n1"


async def test_a_service_that_comes_back_makes_a_candidate_again(world: World) -> None:
    await join(world, services={"asr": False})
    await heartbeat(world.engine, CELL, "n1", services={"asr": True})
    assert await given(world) == ("n1", [])


# A voice.


@pytest.mark.parametrize(
    ("said", "voiced"),
    [
        ({"tts_langs": ["zh"]}, True),
        ({"tts_langs": ["en", "zh"]}, True),
        ({"tts_langs": ["en"]}, False),
        ({"tts_langs": []}, False),
        ({}, False),
        ({"nmt_pairs": "any", "tts_langs": ["zh"]}, True),
        ({"nmt_pairs": "any", "tts_langs": ["en", "fr"]}, False),
        ({"nmt_pairs": "any"}, False),
        ({"nmt_pairs": [["en", "*"]], "tts_langs": ["fr", "zh"]}, True),
        ({"nmt_pairs": [["*", "zh"]], "tts_langs": ["zh"]}, True),
        ({"nmt_pairs": None, "tts_langs": ["zh"]}, True),
        ({"nmt_pairs": None}, False),
    ],
    ids=str,
)
async def test_a_job_that_needs_a_voice_needs_one_in_its_target(
    world: World, said: dict[str, Any], voiced: bool
) -> None:
    await join(world, **said)
    assert await given(world, B) == ("n1", [])
    answer, changes = await watch(world, ask(world, services=SPOKEN))
    if voiced:
        assert isinstance(answer, Placed)
    else:
        assert (answer, changes) == (incapable("1 serve the pair, but none speaks zh"), {})


async def test_only_nodes_with_the_voice_are_candidates(world: World) -> None:
    await join(world, "n1", tts_langs=["zh"])
    await join(world, "n2")
    await join(world, "n3", nmt_pairs="any", tts_langs=["zh", "fr"])
    await join(world, "n4", nmt_pairs="any", tts_langs=["en"])
    await join(world, "n5", nmt_pairs="any", tts_langs=["zh"], services={"tts": False})
    assert await takers(world, services=SPOKEN) == {"n1", "n3"}
    assert await ask(world, services=SPOKEN) == none_free(pool=5, full=2, no_service=3)
    assert await ask(world, A, "en:fr", services=SPOKEN) == none_free("en:fr", pool=3, full=1, no_service=2)


# The way back.


async def test_a_two_way_job_goes_only_to_nodes_of_both_pools(world: World) -> None:
    await join(world, "n1")
    await join(world, "n2", nmt_pairs=[["zh", "en"]])
    refused = ask(world, two_way=True)
    told = f"1 serve the pair, but {NOT_ALL} the way back zh:en, asr, nmt, semantic"
    assert await watch(world, refused) == (incapable(told), {})
    await join(world, "n3", nmt_pairs=[["en", "zh"], ["zh", "en"]])
    await join(world, "n4", nmt_pairs="any")
    await join(world, "n5", nmt_pairs="any", asr_langs=["en"])
    await join(world, "n6", nmt_pairs=[["en", "*"], ["zh", "en"]])
    assert await takers(world, two_way=True) == {"n3", "n4", "n6"}
    assert await ask(world, two_way=True) == none_free(pool=5, full=3, no_service=2)


async def test_a_two_way_job_with_a_voice_needs_both_voices(world: World) -> None:
    both = {"nmt_pairs": [["en", "zh"], ["zh", "en"]]}
    await join(world, "n1", **both, tts_langs=["zh"])
    refused = ask(world, services=SPOKEN, two_way=True)
    told = f"1 serve the pair, but {NOT_ALL} the way back zh:en, asr, nmt, semantic, tts"
    assert await watch(world, refused) == (incapable(told), {})
    await join(world, "n2", **both, tts_langs=["en", "zh"])
    await join(world, "n3", **both, tts_langs=["en"])
    await join(world, "n4", nmt_pairs="any", tts_langs=["zh", "en"])
    await join(world, "n5", nmt_pairs="any", tts_langs=["zh", "fr"])
    assert await takers(world, services=SPOKEN, two_way=True) == {"n2", "n4"}
    assert await takers(world, two_way=True) == {"n1", "n3", "n5"}


async def test_a_two_way_job_has_no_fallback(world: World) -> None:
    await join(world, "n1", semantic_langs=["zh", "en"], nmt_pairs=[["zh", "en"], ["en", "zh"]])
    assert await given(world, A, "yue:en") == ("n1", ["fell back"])
    refused = ask(world, B, "yue:en", two_way=True)
    assert await watch(world, refused) == (incapable(NO_REPAIR.format("yue"), "yue:en"), {})
    refused = ask(world, B, "en:yue", two_way=True)
    assert await watch(world, refused) == (incapable("none translates into yue", "en:yue"), {})


async def test_a_two_way_job_waits_for_its_own_languages_only(world: World) -> None:
    await join(world, "yue", semantic_langs=["yue", "en"], nmt_pairs="any", health="degraded")
    await ask(world, A, "yue:en", two_way=True, wait_ms=1_000)
    assert (await world.cell()).tickets[A].fallback == ""
    await join(world, "zh", semantic_langs=["zh", "en"], nmt_pairs="any")
    assert (await world.cell()).jobs[A].state == "WAITING"
    await heartbeat(world.engine, CELL, "yue", health="ready")
    assert (await world.cell()).jobs[A].node == "yue"


# Labels.


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        ({}, ["n1", "n2", "n3", "n4"]),
        ({"region": "eu"}, ["n1", "n2"]),
        ({"tier": "gold"}, ["n2", "n3"]),
        ({"region": "eu", "tier": "gold"}, ["n2"]),
        ({"region": "us"}, []),
        ({"region": "eu", "tier": "gold", "rack": "7"}, []),
        ({"region": ""}, []),
        ({"eu": "region"}, []),
        ({"Region": "eu"}, []),
        ({"region": "EU"}, []),
        ({"rack": ""}, ["n4"]),
    ],
    ids=str,
)
async def test_a_node_must_carry_every_label(world: World, labels: dict[str, str], nodes: list[str]) -> None:
    await join(world, "n1", labels={"region": "eu"})
    await join(world, "n2", labels={"tier": "gold", "region": "eu"})
    await join(world, "n3", labels={"tier": "gold"})
    await join(world, "n4", labels={"rack": ""})
    assert sorted(await takers(world, labels=labels)) == nodes
    refused = ask(world, labels=labels)
    if nodes:
        numbers = {"pool": 4, "full": len(nodes), "no_service": 4 - len(nodes)}
        assert await watch(world, refused) == (none_free(**numbers), {})
    else:
        asked = ", ".join(f"the label {name}={value}" for name, value in labels.items())
        told = f"4 serve the pair, but {NOT_ALL} {asked}, asr, nmt, semantic"
        assert await watch(world, refused) == (incapable(told), {})


# Nodes that take only jobs that name them.


async def test_a_private_node_takes_only_jobs_that_name_it(world: World) -> None:
    await join(world, "p1", accept_public_jobs=False)
    private = incapable("1 serve the pair, but only for jobs that name them")
    assert await watch(world, ask(world)) == (private, {})
    assert await watch(world, ask(world, bound_node_id="p1")) == (private, {})
    assert await watch(world, ask(world, last_node_id="p1", policy="spread")) == (private, {})
    assert await given(world, preferred_node_id="p1") == ("p1", [])
    assert await given(world, B, preferred_node_id="p1", strict=True) == ("p1", [])
    assert await choice(world, B) == Choice(group=1, candidates=1, policy=0, reasons=[])
    refused = ask(world, C, preferred_node_id="p1", strict=True)
    assert await watch(world, refused) == (unavailable("p1", "full"), {})


@pytest.mark.parametrize("why", HINDRANCES)
async def test_a_job_that_names_a_private_node_in_vain_goes_to_public_ones(world: World, why: str) -> None:
    """And to no other private one, also one of the same group."""
    await join(world, "p1", accept_public_jobs=False, max_concurrent_jobs=1)
    await join(world, "p2", accept_public_jobs=False)
    await join(world, "p3", accept_public_jobs=False, tts_langs=["zh"])
    await join(world, "n1", max_concurrent_jobs=1)
    await hinder(world, "p1", why)
    assert await given(world, preferred_node_id="p1") == ("n1", [f"preferred {why}"])
    assert (await choice(world)).candidates == 1
    refused = ask(world, B, preferred_node_id="p1")
    numbers = {"full": 1} | {why: 2 if why == "full" else 1}
    assert await watch(world, refused) == (none_free(pool=4, not_permitted=2, **numbers), {})


async def test_a_job_that_names_a_public_node_in_vain_goes_to_no_private_one(world: World) -> None:
    await join(world, "n1", max_concurrent_jobs=1)
    await join(world, "p1", accept_public_jobs=False)
    await hinder(world, "n1", "full")
    refused = ask(world, preferred_node_id="n1")
    assert await watch(world, refused) == (none_free(pool=2, full=1, not_permitted=1), {})


async def test_a_job_that_its_private_node_failed_waits_for_it_or_a_public_one(world: World) -> None:
    for job_id, node_id in ((A, "p1"), (B, "p2")):
        await join(world, node_id, accept_public_jobs=False)
        await given(world, job_id, preferred_node_id=node_id)
        await drain(world.engine, CELL, node_id)
        await fail(world.engine, job_id, 1, node_id, reason="")
    await join(world, "p3", accept_public_jobs=False)
    assert nodes_of(await world.cell(), A, B) == ["", ""]
    await resume(world.engine, CELL, "p2")
    assert nodes_of(await world.cell(), A, B) == ["", "p2"]
    await join(world, "n1")
    assert nodes_of(await world.cell(), A, B) == ["n1", "p2"]


async def test_a_private_node_that_is_both_bound_and_named_is_no_vain_wish(world: World) -> None:
    await join(world, "p1", accept_public_jobs=False)
    assert await given(world, preferred_node_id="p1", bound_node_id="p1") == ("p1", [])
