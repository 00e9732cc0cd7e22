"""The client for browsers, as it is served."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.app import ROUTES
from lingua_scheduler.front.handlers.pages import SDK
from tests.support.doors import Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

TOKEN = "a-token-for-sessions"  # noqa: S105 - of this test
PAGE = "https://app.example.com"


@pytest.fixture
async def raw(server: Server) -> AsyncIterator[Raw]:
    """Whoever comes here has no token, though one is needed elsewhere."""
    door = open_door(server.url, ROUTES, auth__session_tokens=[TOKEN], server__allowed_origins=[PAGE])
    async with door as opened, Raw.connect(opened.port) as raw:
        yield raw


def test_every_module_is_served_and_none_is_long() -> None:
    modules = [path for path in (files("lingua_scheduler") / "sdk").iterdir() if path.name.endswith(".js")]
    assert sorted(path.name for path in modules) == sorted(SDK)
    for path in modules:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 400


@pytest.mark.parametrize("name", SDK)
async def test_it_is_open_to_all(raw: Raw, name: str) -> None:
    answer = await raw.get(f"/sdk/{name}")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.body == (files("lingua_scheduler") / "sdk" / name).read_bytes()
    assert (await raw.get("/docs")).status == 401


async def test_whoever_has_it_is_told_so(raw: Raw) -> None:
    first = await raw.get("/sdk/lingua.js")
    other = await raw.get("/sdk/conversation.js")
    tag = first.headers["etag"]
    assert tag != other.headers["etag"]
    for known in (tag, f"W/{tag}", f'"old", {tag}', "*"):
        again = await raw.get("/sdk/lingua.js", f"If-None-Match: {known}")
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == tag
        assert "content-length" not in again.headers
        assert "content-type" not in again.headers
    for old in ('"old"', other.headers["etag"], tag.strip('"'), ""):
        assert (await raw.get("/sdk/lingua.js", f"If-None-Match: {old}")).status == 200


async def test_a_page_of_another_origin_may_load_it_if_it_may_call(raw: Raw) -> None:
    allowed = await raw.get("/sdk/lingua.js", f"Origin: {PAGE}")
    assert allowed.headers["access-control-allow-origin"] == PAGE
    assert allowed.headers["vary"] == "origin"
    stranger = await raw.get("/sdk/lingua.js", "Origin: https://stranger.example.com")
    assert "access-control-allow-origin" not in stranger.headers


async def test_nothing_else_is_there(raw: Raw) -> None:
    for path in ("/sdk/", "/sdk/client.py", "/sdk/..%2Fapp.py", "/sdk/lingua.js/"):
        assert (await raw.get(path)).status == 404
