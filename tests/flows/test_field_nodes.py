"""A field node joins by the messages that it really sends: they go through the codec, its dialect and the flows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.heartbeat import Beaten, heartbeat
from lingua_scheduler.flows.register import Registered, register
from lingua_scheduler.protocol.http import beating, read_heartbeat, read_register
from lingua_scheduler.protocol.legacy import beating_node, registering_node
from lingua_scheduler.protocol.node import NodeHeartbeat, NodeRegister, read_from_node
from lingua_scheduler.protocol.registration import registering
from tests.support.world import CELL

if TYPE_CHECKING:
    from tests.support.world import World

READY: Final = [{"type": kind, "ready": True} for kind in ("asr", "nmt", "tts", "semantic")]
LANGUAGES: Final = {name: ["zh", "en"] for name in ("asr_languages", "semantic_languages", "tts_languages")}


async def say_hello(world: World, **said: Any) -> Registered:
    message = read_from_node(json.dumps({"type": "node_register", "version": "2.0", "node_id": "n1"} | said))
    assert isinstance(message, NodeRegister)
    answer = await register(world.engine, CELL, "n1", connection="x", **registering_node(message))
    assert isinstance(answer, Registered), answer
    return answer


async def beat(world: World, *, first: bool = False, **said: Any) -> Beaten:
    message = read_from_node(json.dumps({"type": "node_heartbeat", "node_id": "n1"} | said))
    assert isinstance(message, NodeHeartbeat)
    answer = await heartbeat(world.engine, CELL, "n1", **beating_node(message, first=first))
    assert isinstance(answer, Beaten), answer
    return answer


async def test_a_field_node_joins_every_pair_of_asr_and_tts_and_is_ready_with_its_first_heartbeat(world: World) -> None:
    joined = await say_hello(world, capability_by_type=READY, language_capabilities=LANGUAGES)
    assert joined.pairs == ["en:en", "en:zh", "zh:en", "zh:zh"]
    assert joined.standing == Standing.not_ready
    usage = {"cpu_percent": 10, "mem_percent": 20, "running_jobs": 0}
    assert (await beat(world, first=True, resource_usage=usage)).standing == Standing.available
    record = (await world.cell()).nodes["n1"]
    assert (record.reported, record.max, record.acks, record.tells) == ("ready", 4, 0, 0)
    assert json.loads((await world.cell()).profiles["n1"].about) == {"version": "2.0"}


async def test_a_field_node_has_no_pools_until_its_semantic_repair_is_ready(world: World) -> None:
    waiting = [{"type": "semantic", "ready": False, "reason": "no_running_impl"}]
    joined = await say_hello(world, capability_by_type=waiting, language_capabilities=LANGUAGES)
    assert (joined.pairs, joined.warnings) == ([], ["no pool: the service semantic is not ready"])
    await beat(world, first=True, capability_by_type=READY)
    assert sorted((await world.cell()).pairs) == ["en:en", "en:zh", "zh:en", "zh:zh"]


@pytest.mark.parametrize("named", [None, []])
@pytest.mark.parametrize("by_type", [None, [], READY, [{"type": "semantic"}], [{"type": "asr", "ready": False}]])
async def test_a_field_node_without_semantic_languages_cannot_be_right(
    world: World, named: list[str] | None, by_type: list[dict[str, Any]] | None
) -> None:
    languages: dict[str, Any] = {**LANGUAGES, "semantic_languages": named}
    said = {"capability_by_type": by_type, "language_capabilities": languages}
    message = read_from_node(json.dumps({"type": "node_register", "node_id": "n1"} | said))
    assert isinstance(message, NodeRegister)
    answer = await register(world.engine, CELL, "n1", **registering_node(message))
    assert isinstance(answer, Refusal)
    assert answer.code == "INVALID_CAPABILITY_SCHEMA"
    assert (await world.cell()).nodes == {}


async def test_languages_that_nobody_knows_are_dropped_and_leave_no_pool(world: World) -> None:
    joined = await say_hello(world, language_capabilities={"semantic_languages": ["klingon"]})
    assert joined.warnings == [
        "semantic_langs: 'klingon' is not a known language; dropped",
        "no pool: no language with semantic repair",
    ]


async def test_a_field_node_that_says_next_to_nothing_is_let_in_if_it_is_not_ready(world: World) -> None:
    joined = await say_hello(world, capability_by_type=[{"type": "semantic", "ready": False}])
    assert (joined.pairs, joined.warnings) == ([], ["no pool: the service semantic is not ready"])
    languages = LANGUAGES | {"semantic_languages": ["zh", "klingon"]}
    later = await beat(world, first=True, capability_by_type=READY, language_capabilities=languages)
    assert later.warnings == ["semantic_langs: 'klingon' is not a known language; dropped"]
    assert sorted((await world.cell()).pairs) == ["zh:en", "zh:zh"]


async def test_a_node_over_http_joins_and_beats(world: World) -> None:
    request = read_register('{"node_id": "n1", "semantic_langs": ["en"], "nmt_pairs": [["en", "zh"]]}')
    joined = await register(world.engine, CELL, "n1", **registering(request))
    assert isinstance(joined, Registered)
    assert (joined.pairs, joined.standing) == (["en:zh"], Standing.available)
    beaten = await heartbeat(
        world.engine,
        CELL,
        "n1",
        **beating(read_heartbeat('{"node_id": "n1", "running_jobs": [], "health": "draining"}')),
    )
    assert isinstance(beaten, Beaten)
    assert beaten.standing == Standing.not_ready


async def test_a_registration_over_http_without_semantic_languages_cannot_be_right(world: World) -> None:
    for body in ("{}", '{"semantic_langs": null}', '{"semantic_langs": []}'):
        answer = await register(world.engine, CELL, "n1", **registering(read_register(body)))
        assert isinstance(answer, Refusal)
        assert answer.code == "INVALID_CAPABILITY_SCHEMA"
