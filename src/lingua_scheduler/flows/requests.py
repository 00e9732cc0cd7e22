"""What the flows about a request id have in common: how they name it."""

from __future__ import annotations

from typing import Final

from lingua_scheduler.core.ids import check_id, check_text
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.store.keys import request_tag

#: SHA-256, in hexadecimal.
DIGEST_CHARS: Final = 64


def check_request(principal: object, request_id: object) -> str:
    """The slot in which the request is kept."""
    return request_tag(check_id("principal", principal), check_id("request_id", request_id))


def check_digest(value: object) -> str:
    """The digest of a body: what is compared when the same request id comes again."""
    text = check_text("digest", value, DIGEST_CHARS)
    if len(text) == DIGEST_CHARS and set(text) <= set("0123456789abcdef"):
        return text
    raise Invalid(f"digest must be {DIGEST_CHARS} hexadecimal digits")
