"""Signing in at a page."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.fields import Message


class LinkRequest(Message, frozen=True, kw_only=True):
    """Who signs in by the link may do what whoever asks for it may, or, with `read_only`, only look."""

    read_only: bool | None = None


class LinkAnswer(Message, frozen=True, kw_only=True):
    """The link, for this server as it sees itself; behind a proxy its `path` belongs behind the proxy's address."""

    ok: bool
    path: str
    url: str
    read_only: bool
    expires_in_ms: int


class SignInRequest(Message, frozen=True, kw_only=True):
    """What stands behind the `#` of a link."""

    link: Annotated[str, Meta(min_length=1, max_length=128)]


class MeAnswer(Message, frozen=True, kw_only=True):
    """Who asks: `admin` or `read-only`, his name if any; `csrf` goes with what he changes at a page."""

    name: str
    role: str
    signed_in: bool
    csrf: str | None = None


read_link: Final = Reader(LinkRequest)
read_sign_in: Final = Reader(SignInRequest)
