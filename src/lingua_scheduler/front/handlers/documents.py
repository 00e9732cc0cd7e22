"""The documents of everything that is served, and a page that shows them without any other server."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import msgspec

from lingua_scheduler.front.auth import PAGE
from lingua_scheduler.front.openapi import asyncapi, openapi
from lingua_scheduler.front.web import Reply, Route
from lingua_scheduler.protocol.codec import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request

#: The client for browsers: modules that load each other by their names.
SDK: Final = ("lingua.js", "conversation.js")
_INLINE: Final = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def with_documents(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """These routes, and those of their documents, which tell of themselves, too."""

    @cache
    def described() -> Reply:
        return Reply(encode(openapi(everything)))

    async def openapi_json(_desk: Desk, _request: Request) -> Reply:
        """OpenAPI 3.1."""
        return described()

    pages = tuple(
        Route("GET", path, PAGE, handle, summary, tag="documents", asks_engine=False)
        for path, handle, summary in (
            ("/openapi.json", openapi_json, "What can be asked, for programs."),
            ("/asyncapi.json", asyncapi_json, "What the sockets speak, for programs."),
            ("/docs", docs, "The same for people."),
        )
    )
    modules = tuple(
        Route(
            "GET",
            f"/sdk/{name}",
            "",
            sdk(name),
            "The client for browsers.",
            tag="documents",
            is_kept=True,
            asks_engine=False,
        )
        for name in SDK
    )
    everything = (*routes, *pages, *modules)
    return everything


async def asyncapi_json(_desk: Desk, _request: Request) -> Reply:
    """AsyncAPI 3."""
    return _asyncapi()


async def docs(_desk: Desk, _request: Request) -> Reply:
    """A page that needs nothing from elsewhere."""
    return _page()


def sdk(name: str) -> Callable[[Desk, Request], Awaitable[Reply]]:
    """Serves one module of the client for browsers, to whoever has not got it as it is."""

    async def module(_desk: Desk, request: Request) -> Reply:
        """A JavaScript module, open to all."""
        reply, tag = _module(name)
        known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
        return msgspec.structs.replace(reply, status=304, body=b"") if known & {tag, "*"} else reply

    return module


@cache
def _module(name: str) -> tuple[Reply, str]:
    """It may be kept, but is asked for again: a new version counts at once."""
    # Found by the package around it: the server does not import the other end.
    text = (files("lingua_scheduler") / "sdk" / name).read_bytes()
    tag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
    headers = (("etag", tag), ("cache-control", "no-cache"), ("x-content-type-options", "nosniff"))
    return Reply(text, content_type="text/javascript; charset=utf-8", headers=headers), tag


@cache
def _asyncapi() -> Reply:
    return Reply(encode(asyncapi()))


@cache
def _page() -> Reply:
    """The page may run its own script and nothing else."""
    text = (files("lingua_scheduler.front") / "docs.html").read_text(encoding="utf-8")
    hashes = {
        kind: base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        for kind, inline in _INLINE.findall(text)
    }
    policy = "; ".join(
        (
            "default-src 'none'",
            "connect-src 'self'",
            f"script-src 'sha256-{hashes['script']}'",
            f"style-src 'sha256-{hashes['style']}'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    headers = (
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    )
    return Reply(text.encode(), content_type="text/html; charset=utf-8", headers=headers)
