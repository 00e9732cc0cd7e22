"""The catalog beside the nodes that it is compared with; and jobs, which do not care."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.house import House, eventually
from tests.support.hub import Hub, answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

LISTED = b'{"services": [{"service_id": "nmt-1"}, {"service_id": "asr-1", "version": "2.0", "type": "asr"}]}'
INSTALLED = [{"service_id": "asr-1", "version": "1.4"}, {"service_id": "nmt-1", "version": "3"}]


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with Hub() as hub:
        hub.says = answer(LISTED)
        yield hub


@pytest.fixture
async def informed(hub: Hub, server: Server) -> AsyncIterator[House]:
    """A scheduler that asks this hub again and again."""
    often = {"catalog.url": hub.url, "catalog.refresh_interval_ms": 500, "catalog.timeout_ms": 500}
    async with House(server.url, **often).open() as house:
        yield house


async def catalog_from(house: House, source: str, failures: int = 0) -> dict[str, Any]:
    """The catalog, when it is from there and could not be read anew for so often."""
    said: dict[str, Any] = {}

    async def is_so() -> bool:
        said.update(await house.get("/api/v1/catalog"))
        return bool(said["source"] == source and said["failures"] >= failures)

    await eventually(is_so)
    return said


async def test_a_node_shows_what_it_should_update(informed: House) -> None:
    said = await catalog_from(informed, "hub")
    assert [service["service_id"] for service in said["services"]] == ["asr-1", "nmt-1"]
    assert said["age_ms"] >= 0
    async with informed.node("n1") as node:
        await node.register(installed_services=INSTALLED)
        shown = await informed.get("/v1/nodes/n1")
        assert shown["installed"] == [
            {"service_id": "asr-1", "status": "outdated", "version": "1.4", "latest": "2.0"},
            {"service_id": "nmt-1", "status": "unknown", "version": "3"},
        ]


async def test_a_hub_that_dies_changes_nothing_for_jobs_and_is_named_among_the_problems(
    informed: House, hub: Hub
) -> None:
    await catalog_from(informed, "hub")
    await hub.die()
    async with informed.node("n1") as node:
        await node.register(installed_services=INSTALLED)
        said = await catalog_from(informed, "hub", failures=3)
        assert len(said["services"]) == 2
        assert said["error"]
        placed = await informed.dispatch()
        await node.result(await node.job())
        assert (await informed.ended(placed["job_id"]))["state"] == "FINISHED"

        async def is_named() -> bool:
            health = (await informed.stats())["health"]
            return any("the service catalog could not be refreshed" in problem for problem in health["problems"])

        await eventually(is_named)


async def test_without_a_hub_there_is_no_catalog_and_nothing_is_wrong(house: House) -> None:
    said = await house.get("/api/v1/catalog")
    assert said == {"source": "", "services": [], "failures": 0}
