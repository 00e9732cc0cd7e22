"""Who sits at a page: links that make a seat, the cookie that keeps it, and what such a browser must show besides.

A browser sends its cookie whoever made it call us. So the cookie counts only for a page of our own (`Origin`), and what
changes anything must bring a word, too, that only such a page can read.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.core.seat import CONSOLE, Cookie, digest_of, new_secret, read_cookie
from lingua_scheduler.flows.leave_seat import leave_seat
from lingua_scheduler.flows.offer_seat import offer_seat
from lingua_scheduler.flows.take_seat import Seated, take_seat
from lingua_scheduler.front.auth import Principal
from lingua_scheduler.front.origins import is_own
from lingua_scheduler.views.seat import read_seat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.config.doors import Auth as Settings
    from lingua_scheduler.front.auth import Auth
    from lingua_scheduler.store.engine import Engine

COOKIE: Final = "lingua_seat"
CSRF: Final = "x-lingua-csrf"
#: What changes nothing.
READS: Final = ("GET", "HEAD")
_GONE: Final = Refusal("UNAUTHENTICATED", "Nobody is signed in here any more; `lingua link` makes another link.")


class Seats:
    """The seats of all instances: the engine has them."""

    def __init__(self, engine: Engine, auth: Auth, settings: Settings) -> None:
        self._engine = engine
        self._auth = auth
        self._settings = settings

    async def offer(self, name: str, *, reads_only: bool) -> str | Refusal:
        """A new link, for once: what stands behind the `#` of the page that signs in."""
        link = new_secret()
        offered = await offer_seat(
            self._engine, digest_of(link), name, reads_only=reads_only, ttl_ms=self._settings.link_ttl_ms
        )
        return offered if isinstance(offered, Refusal) else link

    async def take(self, link: str) -> tuple[Seated, Cookie] | Refusal:
        """Use a link up."""
        cookie = Cookie(digest_of(link), new_secret())
        seated = await take_seat(self._engine, cookie.place, digest_of(cookie.secret), self._settings.seat_ttl_ms)
        return seated if isinstance(seated, Refusal) else (seated, cookie)

    async def leave(self, cookie: Cookie) -> None:
        """Give a seat up."""
        await leave_seat(self._engine, cookie.place, digest_of(cookie.secret))

    async def admit(self, cookie: Cookie, scope: str) -> Principal | Refusal:
        """Whoever shows this cookie at the door of this scope."""
        seat = await read_seat(self._engine, cookie.place)
        if seat is None or isinstance(seat, Refusal) or not cookie.opens(seat):
            return _GONE
        if seat.name != CONSOLE and not self._auth.is_operator(seat.name):
            # His token was taken away since.
            return _GONE
        principal = Principal(seat.name, frozenset({"admin"}), reads_only=seat.reads_only)
        if not principal.opens(scope):
            return Refusal("FORBIDDEN", f"Whoever is signed in has not got the scope {scope}.")
        return principal


def cookie_in(headers: Mapping[bytes, bytes]) -> Cookie | None:
    """The seat that a browser shows, if it shows nothing better."""
    said = headers.get(b"cookie")
    if said is None or b"authorization" in headers:
        return None
    for part in said.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return read_cookie(value)
    return None


def check_page(method: str, host: str | None, origin: str | None, cookie: Cookie, csrf: str | None) -> Refusal | None:
    """Whether a request with a cookie comes from a page of ours; None: it does."""
    if origin is None and method in READS:
        # Browsers say it with whatever may change something, and with every call of another origin.
        return None
    if origin is None or not is_own(host, origin):
        return Refusal("FORBIDDEN", "Whoever is signed in may call this only from a page of this server.")
    if method not in READS and not hmac.compare_digest((csrf or "").encode(), cookie.csrf.encode()):
        return Refusal("FORBIDDEN", f"{CSRF}: missing or wrong; /api/v1/me tells it to a page that is signed in.")
    return None


def set_cookie(value: str, for_ms: int, *, secure: bool) -> tuple[str, str]:
    """The header that has a browser keep it; for no time: forget it. No script ever sees it."""
    flags = f"Path=/; Max-Age={for_ms // 1000}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return "set-cookie", f"{COOKIE}={value}; {flags}"
