"""Signing in at a page by a link, and out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.front.origins import is_own
from lingua_scheduler.front.seats import set_cookie
from lingua_scheduler.front.web import Query, Reply, Route
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.http import OkAnswer
from lingua_scheduler.protocol.signing import (
    LinkAnswer,
    LinkRequest,
    MeAnswer,
    SignInRequest,
    read_link,
    read_sign_in,
)

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request, Said

#: The page that takes a link. What stands behind the `#` never leaves the browser by itself, and so is in no log.
SIGN_IN: Final = "/sign-in"
_NOT_KEPT: Final = ("cache-control", "no-store")


async def make_link(desk: Desk, request: Request) -> Said:
    """A link for whoever is to sign in, as who asks for it, or only to look."""
    said: LinkRequest = request.message
    link = await desk.seats.offer(request.principal.name, reads_only=said.read_only or False)
    if isinstance(link, Refusal):
        return link
    return LinkAnswer(
        ok=True,
        path=f"{SIGN_IN}#{link}",
        url=f"{desk.url}{SIGN_IN}#{link}",
        read_only=said.read_only or False,
        expires_in_ms=desk.settings.auth.link_ttl_ms,
    )


async def sign_in(desk: Desk, request: Request) -> Said:
    """Use a link up, and be known from now on."""
    said: SignInRequest = request.message
    headers = request.headers
    origin = headers.get("origin")
    if origin is None or not is_own(headers.get("host"), origin):
        return Refusal("FORBIDDEN", "Only a page of this server signs in.")
    admitted = await desk.buckets.admit_sign_in(request.client)
    if isinstance(admitted, Refusal):
        return admitted
    taken = await desk.seats.take(said.link)
    if isinstance(taken, Refusal):
        # However often somebody tries, it is told once a minute: anybody can.
        at = request.client
        desk.chronicler.note("admin_sign_in", at, who="", where=at, outcome=taken.code, seen=True)
        return taken
    seated, cookie = taken
    role = "read-only" if seated.reads_only else "admin"
    desk.chronicler.note("admin_sign_in", "", role, who=seated.name, where=request.client, outcome="ok")
    me = MeAnswer(name=seated.name, role=role, signed_in=True, csrf=cookie.csrf)
    # What came by TLS goes back by nothing else.
    kept = set_cookie(str(cookie), desk.settings.auth.seat_ttl_ms, secure=origin.startswith("https:"))
    return Reply(encode(me), headers=(_NOT_KEPT, kept))


async def sign_out(desk: Desk, request: Request) -> Said:
    """Give the seat up. Whoever has none is signed out already."""
    if request.cookie is not None:
        await desk.seats.leave(request.cookie)
    secure = request.headers.get("origin", "").startswith("https:")
    return Reply(encode(OkAnswer(ok=True)), headers=(_NOT_KEPT, set_cookie("", 0, secure=secure)))


async def show_me(_desk: Desk, request: Request) -> Said:
    """Who asks, what he may do, and, if he is signed in, what he must show to do it."""
    principal, cookie = request.principal, request.cookie
    return MeAnswer(
        name=principal.name,
        role="read-only" if principal.reads_only else "admin",
        signed_in=cookie is not None,
        csrf=None if cookie is None else cookie.csrf,
    )


ROUTES: Final = (
    Route(
        "POST",
        "/api/v1/link",
        "admin",
        make_link,
        "A link that signs a browser in, once.",
        answers=LinkAnswer,
        reads=read_link,
        tag="signing",
        act="link",
        acts_with=lambda said: "read-only" if said.read_only else "admin",
    ),
    Route(
        "POST",
        "/api/v1/sign-in",
        "",
        sign_in,
        "Use a link up.",
        answers=MeAnswer,
        reads=read_sign_in,
        headers=(Query("origin", "The page that asks: one of this server.", required=True),),
        refuses=("LINK_GONE", "FORBIDDEN", "RATE_LIMITED"),
        tag="signing",
    ),
    Route(
        "POST",
        "/api/v1/sign-out",
        "admin",
        sign_out,
        "Be known no more.",
        answers=OkAnswer,
        tag="signing",
        act="sign_out",
        for_readers=True,
    ),
    Route("GET", "/api/v1/me", "admin", show_me, "Who asks, and what he may do.", answers=MeAnswer, tag="signing"),
)
