"""The catalog is refreshed from a hub that hangs, lies, sends us elsewhere and dies: what was known stays known."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.config.catalog import Catalog as Settings
from lingua_scheduler.core.catalog import MAX_BYTES
from lingua_scheduler.loops.catalog_refresher import CatalogRefresher
from tests.support.hub import Hub, answer

if TYPE_CHECKING:
    from pathlib import Path

LISTED = b'{"services": [{"service_id": "asr-1", "version": "2.0"}]}'


class Time:
    """Seconds, as many as it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refresher(hub: Hub | None, tmp_path: Path, time: Time | None = None, **more: int) -> CatalogRefresher:
    url = "" if hub is None else hub.url
    return CatalogRefresher(Settings(url=url, file=str(tmp_path / "services_index.json"), **more), time or Time())


def seen(catalog: CatalogRefresher) -> tuple[str, list[str], int]:
    """Who told it, what, and how often that could not be heard again since."""
    names = [] if catalog.catalog is None else sorted(catalog.catalog.services)
    return catalog.source, names, catalog.failures


async def test_a_hub_is_asked_and_the_age_is_since_then(tmp_path: Path) -> None:
    time = Time()
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path, time)
        assert (seen(catalog), catalog.age_ms) == (("", [], 0), None)
        hub.says = answer(LISTED)
        await catalog.turn()
        time.now += 7
        assert (seen(catalog), catalog.age_ms) == (("hub", ["asr-1"], 0), 7_000)


async def test_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    time = Time()
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path, time)
        hub.says = answer(LISTED, etag='"7"')
        await catalog.turn()
        hub.says = answer(b"", "304 Not Modified")
        time.now += 30
        await catalog.turn()
        assert (seen(catalog), catalog.age_ms) == (("hub", ["asr-1"], 0), 0)
        assert ["if-none-match" in asked for asked in hub.asked] == [False, True]


async def test_a_tag_that_cannot_be_said_again_is_left_out(tmp_path: Path) -> None:
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path)
        hub.says = answer(LISTED, etag='"\u00fc"')
        await catalog.turn()
        await catalog.turn()
        assert seen(catalog) == ("hub", ["asr-1"], 0)
        assert ["if-none-match" in asked for asked in hub.asked] == [False, False]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (answer(b"<html>we moved</html>"), "lists no services"),
        (answer(b'{"services": {}}'), "lists no services"),
        (answer(b'{"services": [], "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "lists no services"),
        (answer(b"", "304 Not Modified"), "answered 304"),
        (answer(LISTED, "503 Service Unavailable"), "answered 503"),
        (answer(b"", "302 Found", location="http://127.0.0.1:1/else"), "another address"),
        (answer(gzip.compress(LISTED), content_encoding="gzip"), "packed"),
        (answer(b"x" * (MAX_BYTES + 1)), "more than"),
        (answer(LISTED)[:-10], ""),
        (b"this is not HTTP\r\n\r\n", ""),
        (b"", ""),
    ],
)
async def test_a_hub_that_lies_or_sends_us_elsewhere_has_not_answered(says: bytes, why: str, tmp_path: Path) -> None:
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path)
        hub.says = answer(LISTED)
        await catalog.turn()
        hub.says = says
        await catalog.turn()
        assert seen(catalog) == ("hub", ["asr-1"], 1)
        assert why in catalog.error
        hub.says = answer(b'{"services": []}')
        await catalog.turn()
        assert (seen(catalog), catalog.error) == (("hub", [], 0), "")


async def test_a_hub_that_hangs_is_given_up(tmp_path: Path) -> None:
    async with Hub() as hub:
        hub.says = None
        catalog = refresher(hub, tmp_path, timeout_ms=50)
        await catalog.turn()
        assert (seen(catalog), catalog.error) == (("", [], 1), "no answer within 50 ms")


async def test_a_hub_that_dies_is_asked_less_and_less_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path, refresh_interval_ms=10_000, max_interval_ms=50_000)
        hub.says = answer(LISTED)
        await catalog.turn()
        await hub.die()
        pauses = []
        for _ in range(6):
            await catalog.turn()
            pauses.append(catalog._interval_s)
        assert (pauses, catalog.is_stale) == ([10, 10, 20, 40, 50, 50], True)
        assert seen(catalog) == ("hub", ["asr-1"], 6)
        # Nobody reads the same line every half a minute.
        assert [record.message.count("was not refreshed") for record in caplog.records] == [1, 1]
    async with Hub() as again:
        again.says = answer(LISTED)
        catalog._settings = Settings(url=again.url, refresh_interval_ms=10_000)
        await catalog.turn()
        assert (catalog._interval_s, catalog.is_stale, "refreshed again" in caplog.text) == (10, False, True)


async def test_before_the_hub_has_answered_a_file_counts_and_never_after(tmp_path: Path) -> None:
    file = tmp_path / "services_index.json"
    file.write_bytes(json.dumps({"services": [{"service_id": "local"}]}).encode())
    async with Hub() as hub:
        catalog = refresher(hub, tmp_path)
        hub.says = b""
        await catalog.turn()
        assert seen(catalog) == ("file", ["local"], 1)
        hub.says = answer(LISTED)
        await catalog.turn()
        await hub.die()
        await catalog.turn()
        assert seen(catalog) == ("hub", ["asr-1"], 1)


async def test_without_a_hub_the_file_is_the_catalog_and_without_both_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "services_index.json"
    catalog = refresher(None, tmp_path)
    await catalog.turn()
    assert seen(catalog) == ("", [], 0)
    file.write_bytes(LISTED)
    await catalog.turn()
    assert seen(catalog) == ("file", ["asr-1"], 0)
    file.write_bytes(b"{")
    await catalog.turn()
    assert seen(catalog) == ("file", ["asr-1"], 1)
    assert str(file) in catalog.error
    file.unlink()
    await catalog.turn()
    assert (seen(catalog), catalog.age_ms) == (("", [], 0), None)
    file.mkdir()
    await catalog.turn()
    assert seen(catalog) == ("", [], 1)
