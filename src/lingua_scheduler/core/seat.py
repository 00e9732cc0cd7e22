"""A seat: somebody at a page who has shown, once, that he may be there.

A link is a secret that makes a seat, once, within a short time. Whoever uses it gets a cookie with a secret of its own.
The engine has only the digests of both, in one place that is named after the link: any instance can look there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

from lingua_scheduler.core.records import Record

#: Whose the seat is that a server makes when it starts, for whoever reads what it prints. It is no name of a token.
CONSOLE: Final = "(console)"
#: A digest names the place of a seat.
_is_place: Final = re.compile(r"[0-9a-f]{64}").fullmatch
_BYTES: Final = 32
_MAX_COOKIE_CHARS: Final = 200


class Seat(Record, frozen=True):
    """Whose it is, whether he may only look, the digest of his secret, and until when."""

    name: str
    reads_only: bool
    digest: str
    until_ms: int


class Cookie(NamedTuple):
    """What a browser shows: the place of its seat, and the secret."""

    place: str
    secret: str

    def __str__(self) -> str:
        return f"{self.place}.{self.secret}"

    def opens(self, seat: Seat) -> bool:
        """Whether it is the one that was given for this seat."""
        return hmac.compare_digest(seat.digest, digest_of(self.secret))

    @property
    def csrf(self) -> str:
        """What a page of ours can read and no other: it comes with everything that changes something."""
        return digest_of(f"csrf {self.secret}")


def new_secret() -> str:
    """Nobody guesses it."""
    return secrets.token_urlsafe(_BYTES)


def digest_of(text: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def is_place(text: object) -> bool:
    """Whether it can name the place of a seat."""
    return isinstance(text, str) and _is_place(text) is not None


def read_cookie(text: str) -> Cookie | None:
    """The cookie, if it can be one of ours."""
    place, _, secret = text.partition(".")
    return Cookie(place, secret) if len(text) <= _MAX_COOKIE_CHARS and is_place(place) and secret else None
