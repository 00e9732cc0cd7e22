"""What a browser may keep, and asks for again: a new version counts at once."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.front.web import Reply

if TYPE_CHECKING:
    from lingua_scheduler.front.web import Request


def keep(body: bytes, content_type: str, *more: tuple[str, str]) -> Reply:
    """An answer that names its version."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = (("etag", tag), ("cache-control", "no-cache"), ("x-content-type-options", "nosniff"), *more)
    return Reply(body, content_type=content_type, headers=headers)


def unless_known(kept: Reply, request: Request) -> Reply:
    """The answer, for whoever has not got it as it is."""
    tag = dict(kept.headers)["etag"]
    known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    return msgspec.structs.replace(kept, status=304, body=b"") if known & {tag, "*"} else kept
