"""Pages for people, what they are made of, and the client for browsers. Nothing of it comes from elsewhere.

A page is a file `pages/<name>.html`; it may load what is served here, and nothing else. Everything beside it is an
asset, open to all: it holds nothing that is not in the package.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.front.auth import PAGE
from lingua_scheduler.front.kept import keep, unless_known
from lingua_scheduler.front.web import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Reply, Request, Said

#: The client for browsers: modules that load each other by their names.
SDK: Final = ("lingua.js", "conversation.js")
# By the package around them: the server does not import the other end.
_ROOT: Final = files("lingua_scheduler")
_PAGES: Final = "front/pages"
#: Of a path that leads nowhere.
_MAX_SHOWN: Final = 80
_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
#: What a page may do: load and call this server. No markup that it is given can make it run or show anything else.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_OF_PAGES: Final = (
    ("content-security-policy", _POLICY),
    ("permissions-policy", "microphone=(self), camera=(), geolocation=()"),
    ("referrer-policy", "no-referrer"),
)


@cache
def _file(path: str, *more: tuple[str, str]) -> Reply:
    return keep((_ROOT / path).read_bytes(), _KINDS[path.rpartition(".")[2]], *more)


@cache
def assets() -> frozenset[str]:
    """What can be loaded: no other path leads to any file."""
    found = []
    for path in (_ROOT / _PAGES).iterdir():
        found += [f"{path.name}/{inner.name}" for inner in path.iterdir()] if path.is_dir() else [path.name]
    return frozenset(name for name in found if name.rpartition(".")[2] in _KINDS.keys() - {"html"})


async def asset(_desk: Desk, request: Request) -> Said:
    """A module, a style or a picture, open to all."""
    name = "/".join(request.named.values())
    if name not in assets():
        return refuse("NOT_FOUND", path=f"/assets/{name[:_MAX_SHOWN]}")
    return unless_known(_file(f"{_PAGES}/{name}"), request)


def _page(name: str) -> Callable[[Desk, Request], Awaitable[Said]]:
    async def page(_desk: Desk, request: Request) -> Said:
        """A page that needs nothing from elsewhere."""
        return unless_known(_file(f"{_PAGES}/{name}.html", *_OF_PAGES), request)

    return page


def _module(name: str) -> Callable[[Desk, Request], Awaitable[Said]]:
    async def module(_desk: Desk, request: Request) -> Said:
        """A JavaScript module, open to all."""
        return unless_known(_file(f"sdk/{name}"), request)

    return module


def _get(
    path: str,
    scope: str,
    handle: Callable[[Desk, Request], Awaitable[Said]],
    summary: str,
    refuses: tuple[str, ...] = (),
) -> Route:
    return Route("GET", path, scope, handle, summary, tag="documents", is_kept=True, asks_engine=False, refuses=refuses)


ROUTES: Final = (
    _get("/docs", PAGE, _page("docs"), "What can be asked, for people."),
    _get("/dashboard", PAGE, _page("dashboard"), "The fleet at one glance, and what to do about it."),
    _get("/playground", PAGE, _page("playground"), "Speak, and see what happens."),
    _get("/sign-in", "", _page("sign-in"), "Sign in by a link, with a browser."),
    _get("/assets/{asset}", "", asset, "What pages are made of.", ("NOT_FOUND",)),
    _get("/assets/{folder}/{file}", "", asset, "What pages are made of.", ("NOT_FOUND",)),
    *(_get(f"/sdk/{name}", "", _module(name), "The client for browsers.") for name in SDK),
)
