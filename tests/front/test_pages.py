"""Pages and what they are made of, as they are served."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.app import ROUTES
from lingua_scheduler.front.handlers.pages import assets
from tests.support.doors import Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

TOKEN = "a-token-for-sessions"  # noqa: S105 - of this test
SHOWS = f"Authorization: Bearer {TOKEN}"
ROOT = files("lingua_scheduler") / "front" / "pages"
PAGES = ("dashboard", "docs", "playground", "sign-in")
OURS = sorted(name for name in assets() if not name.startswith("vendor/"))


@pytest.fixture
async def raw(server: Server) -> AsyncIterator[Raw]:
    """Sessions and pages need a token here."""
    async with open_door(server.url, ROUTES, auth__session_tokens=[TOKEN]) as opened, Raw.connect(opened.port) as raw:
        yield raw


async def test_everything_that_pages_are_made_of_is_open_to_all(raw: Raw) -> None:
    kinds = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
    for name in sorted(assets()):
        answer = await raw.get(f"/assets/{name}")
        assert answer.status == 200, name
        assert answer.headers["content-type"] == kinds.get(name.rpartition(".")[2], "text/plain; charset=utf-8")
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.body == ROOT.joinpath(name).read_bytes()


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_may_load_and_call_this_server_and_nothing_else(raw: Raw, page: str) -> None:
    assert (await raw.get(f"/{page}")).status == (200 if page == "sign-in" else 401)
    answer = await raw.get(f"/{page}", SHOWS)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(one.strip().split(" ", 1) for one in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert set(policy.values()) == {"'self'", "'none'"}
    assert answer.headers["permissions-policy"].startswith("microphone=(self)")
    text = answer.body.decode()
    assert "://" not in text
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text)
    loaded = re.findall(r'(?:src|href)="assets/([^"]+)"', text)
    assert loaded
    assert set(loaded) <= assets()


@pytest.mark.parametrize("path", ["/playground", "/docs", "/assets/base.css", "/assets/vendor/preact.js"])
async def test_whoever_has_it_is_told_so_and_whoever_asks_for_the_head_gets_that(raw: Raw, path: str) -> None:
    first = await raw.get(path, SHOWS)
    again = await raw.get(path, SHOWS, f"If-None-Match: {first.headers['etag']}")
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers["cache-control"] == "no-cache"
    assert (await raw.get(path, SHOWS, 'If-None-Match: "old"')).body == first.body
    await raw.write(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{SHOWS}\r\nConnection: close\r\n\r\n".encode())
    head, _, rest = (await raw.rest()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert f"content-length: {len(first.body)}".encode() in head
    assert first.headers["etag"].encode() in head
    assert rest == b""


async def test_no_other_path_leads_to_a_file(raw: Raw) -> None:
    for path in (
        "/assets/",
        "/assets/vendor",
        "/assets/vendor/",
        "/assets/playground.html",
        "/assets/vendor/README.md",
        "/assets/vendor/SHA256SUMS",
        "/assets/../web.py",
        "/assets/..%2Fweb.py",
        "/assets/%2e%2e/web.py",
        "/assets/vendor/..%2F..%2Fweb.py",
        "/assets//etc/passwd",
        "/playground/",
    ):
        answer = await raw.get(path, SHOWS)
        assert (answer.status, answer.said["error"]) == (404, "NOT_FOUND"), path


@pytest.mark.parametrize("name", [name for name in OURS if name.endswith(".js")])
def test_a_module_loads_only_what_is_served_and_makes_no_markup_of_texts(name: str) -> None:
    text = ROOT.joinpath(name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 300
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function", text
    )
    folder = name.rpartition("/")[0]
    for path in re.findall(r'(?:from|import) "([^"]+)"', text):
        assert path.startswith("."), path
        parts = folder.split("/") if folder else []
        for part in path.split("/"):
            if part == "..":
                parts = parts[:-1] if parts else ["/"]
            elif part != ".":
                parts.append(part)
        found = "/".join(parts)
        assert found in assets() or found in {"/sdk/lingua.js", "//sdk/lingua.js"}, (name, path)


def test_no_module_of_others_loads_anything_by_a_name_that_browsers_do_not_know() -> None:
    for name in assets():
        if name.startswith("vendor/") and name.endswith(".js"):
            text = ROOT.joinpath(name).read_text(encoding="utf-8")
            found = re.findall(r'\bfrom ?"([^"\s]+)"', text)
            assert {f"vendor/{path.removeprefix('./')}" for path in found} <= assets()
            assert "sourceMappingURL" not in text
