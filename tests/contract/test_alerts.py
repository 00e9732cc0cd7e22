"""The alerts, by what an instance really tells: each finds the numbers it asks for, and fires when it is so."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lingua_scheduler.core.letter import Letter, Parcel
from lingua_scheduler.flows.bury import bury
from tests.contract.test_metrics import Scrape, scrape
from tests.deploy.test_prometheus import PROMETHEUS, promtool
from tests.support.house import House, eventually
from tests.support.mail import arrive, send
from tests.support.servers import start_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"], "nmt_pairs": [["en", "zh"]], "max_concurrent_jobs": 4}
#: A name, and what is asked of its labels.
_SELECTOR = re.compile(r"\b(lingua_[a-z_]+)(?:\{([^}]*)\})?")
_FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    async with House(server.url).open() as house:
        await house.post("/v1/node/register", NODE)
        await house.post("/v1/node/register", NODE | {"node_id": "n2"})
        yield house


def fire(found: Scrape, tmp_path: Path, expected: set[str]) -> None:
    """If it stays so for twenty minutes, these fire and no others."""
    series = [
        {"series": name + "{" + ",".join(f'{key}="{word}"' for key, word in (*labels, ("instance", "a"))) + "}"}
        | {"values": f"{value}x80"}
        for (name, labels), value in found.items()
        if name.startswith("lingua_")
    ]
    said = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    test = {"interval": "15s", "input_series": series}
    test |= {"promql_expr_test": [{"expr": _FIRING, "eval_time": "20m", "exp_samples": said}]}
    rules = [str(PROMETHEUS / "rules.yaml"), str(PROMETHEUS / "alerts.yaml")]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": rules, "evaluation_interval": "15s", "tests": [test]}))
    promtool("test", "rules", str(file))


async def test_every_number_that_a_rule_asks_for_is_told_before_anything_has_happened(
    server: Server, tmp_path: Path
) -> None:
    index = tmp_path / "services_index.json"
    index.write_text('{"services": []}')
    async with House(server.url, **{"catalog.file": str(index), "loops.audit_interval_ms": 100}).open() as house:
        await house.post("/v1/node/register", NODE)

        async def is_complete() -> bool:
            await house.stats()
            return {"lingua_fleet_invariant_violations", "lingua_catalog_age_seconds"} <= {
                name for name, _ in await scrape(house)
            }

        await eventually(is_complete)
        found = await scrape(house)
    for file in ("rules.yaml", "alerts.yaml"):
        said = yaml.safe_load((PROMETHEUS / file).read_text(encoding="utf-8"))
        for rule in (rule for group in said["groups"] for rule in group["rules"]):
            for name, asked in _SELECTOR.findall(rule["expr"]):
                for wanted in _wanted(asked):
                    assert any(name == told and wanted.items() <= dict(labels).items() for told, labels in found), (
                        f"{rule}: nobody tells {name} {wanted}"
                    )


def _wanted(asked: str) -> list[dict[str, str]]:
    """The labels of each series that a selector must find; of a `!=` there may be any."""
    found: list[dict[str, str]] = [{}]
    for label, how, words in re.findall(r'(\w+)(=~|=|!=)"([^"]*)"', asked):
        if how != "!=":
            found = [one | {label: word} for one in found for word in words.split("|")]
    return found


async def test_nothing_fires_while_all_is_well(house: House, tmp_path: Path) -> None:
    job = await house.dispatch()
    await house.stats()
    fire(await scrape(house), tmp_path, set())
    await house.post("/v1/job/cancel", {"job_id": job["job_id"]})


async def test_a_pair_whose_nodes_all_drain_is_empty_and_one_with_a_single_one_left_hangs_on_it(
    house: House, tmp_path: Path
) -> None:
    await house.post("/v1/nodes/n1/drain", {})
    await house.stats()
    fire(await scrape(house), tmp_path, {"LinguaPairHangsOnOneNode"})
    await house.post("/v1/nodes/n2/drain", {})
    await house.stats()
    fire(await scrape(house), tmp_path, {"LinguaPairEmpty"})


async def test_a_pair_of_whose_nodes_a_service_is_marked_is_not_empty(house: House, tmp_path: Path) -> None:
    """A bad push of a model is no matter for that alert's runbook."""
    for node_id in ("n1", "n2"):
        house.serving.desk.marker.saw(node_id, "whisper", "asr")

    async def are_marked() -> bool:
        return "2 of 2 nodes have a service that does not work" in (await house.stats())["health"]["problems"]

    await eventually(are_marked)
    fire(await scrape(house), tmp_path, set())
    runbooks = (PROMETHEUS.parents[1] / "docs" / "runbooks.md").read_text(encoding="utf-8")
    told = {part.partition("\n")[0] for part in runbooks.split("\n## ") if "nodes.mark_ttl_ms" in part}
    assert told == {"LinguaReserveSuccessLow"}


async def test_nodes_that_are_silent_beside_others_that_are_lost_are_a_mass_silence(
    server: Server, tmp_path: Path
) -> None:
    async with House(server.url).open() as house:
        for number in range(3):
            await house.post("/v1/node/register", NODE | {"node_id": f"n{number}"})
        await house.stats()
        found = await scrape(house)
    # Nobody waits for as long as it takes to fall silent.
    for standing, number in (("available", 1), ("stale", 2), ("lost", 3)):
        found["lingua_fleet_nodes", (("standing", standing),)] = number
    fire(found, tmp_path, {"LinguaMassSilence"})


async def test_a_job_that_waits_fires(house: House, tmp_path: Path) -> None:
    for node_id in ("n1", "n2"):
        await house.post(f"/v1/nodes/{node_id}/max", {"max_concurrent_jobs": 1})
    jobs = [await house.dispatch(f"s{number}") for number in range(2)]
    waiting = asyncio.create_task(house.dispatch("w", options={"wait_ms": 10_000}))

    async def is_waiting() -> bool:
        return any(pool["waiting"] for pool in (await house.stats())["pools"])

    await eventually(is_waiting)
    fire(await scrape(house), tmp_path, {"LinguaWaitingTooLong"})
    for job in jobs:
        said = {name: job[name] for name in ("job_id", "attempt_id", "node_id")}
        await house.post("/v1/job/done", said | {"status": "ok"})
    await waiting


async def test_one_node_that_comes_and_goes_fires(house: House, tmp_path: Path) -> None:
    for number in range(4):
        await house.post("/v1/node/register", NODE | {"process_id": f"p{number}"})

    async def is_seen() -> bool:
        await house.stats()
        return (await scrape(house))["lingua_fleet_nodes_flapping", ()] == 1

    await eventually(is_seen)
    found = await scrape(house)
    # It rests, so that the other one is alone with the work, but it is given jobs again.
    fire(found, tmp_path, {"LinguaNodesFlapping"})


async def test_letters_that_nobody_reads_or_could_use_fire(house: House, tmp_path: Path) -> None:
    engine = house.serving.app.engine
    await arrive(engine, "hangs")
    await bury(engine, Parcel("gone", "1-0", 10, Letter("news", "c0.a", 2, "n1")), "nobody reads it")
    await send(engine, "hangs", "one", "two", "three")

    async def is_seen() -> bool:
        await house.stats()
        found = await scrape(house)
        return found["lingua_fleet_inbox_letters", ()] == 3 and found["lingua_fleet_dead_letters", ()] == 1

    await eventually(is_seen)
    found = await scrape(house)
    assert found["lingua_inbox_letters", ()] == 0
    found["lingua_fleet_inbox_letters", ()] *= 1_000
    fire(found, tmp_path, {"LinguaInboxLag", "LinguaDeadLetters"})


async def test_an_engine_that_is_dead_before_anybody_has_looked_fires_and_the_snapshot_is_old(tmp_path: Path) -> None:
    engine = start_server(tmp_path)
    try:
        async with House(engine.url, **{"loops.snapshot_interval_ms": 600_000}).open() as house:
            engine.freeze()
            desk = house.serving.desk
            desk.stats.last = None
            desk.started_at_ms -= 3_600_000

            async def is_silent() -> bool:
                return (await scrape(house))["lingua_engine_silence_seconds", ()] > 2

            await eventually(is_silent)
            found = await scrape(house)
            assert found["lingua_snapshot_age_seconds", ()] > 3_600
            found["lingua_engine_silence_seconds", ()] *= 10
            engine.thaw()
        fire(found, tmp_path, {"LinguaEngineDown", "LinguaSnapshotStale"})
    finally:
        engine.thaw()
        engine.stop()


async def test_a_hub_that_never_answered_is_missed_though_a_file_stands_in_for_it(
    server: Server, tmp_path: Path
) -> None:
    index = tmp_path / "services_index.json"
    index.write_text('{"services": []}')
    how: dict[str, Any] = {"catalog.url": "http://127.0.0.1:9/", "catalog.file": str(index)}
    async with House(server.url, **how).open() as house:
        await house.post("/v1/node/register", NODE)
        await house.post("/v1/node/register", NODE | {"node_id": "n2"})
        refresher = house.serving.desk.catalog

        async def stands_in() -> bool:
            return refresher.source == "file"

        await eventually(stands_in)
        began = refresher._clock
        refresher._clock = lambda: began() + 3_600
        await refresher.turn()
        await house.stats()
        found = await scrape(house)
        assert found["lingua_catalog_age_seconds", ()] > 3_599
    fire(found, tmp_path, {"LinguaCatalogStale"})
