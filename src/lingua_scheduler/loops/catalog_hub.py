"""One question to the hub that lists the services. Whatever it does, the answer is an index, or why there is none."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import httpx2

from lingua_scheduler.core.catalog import MAX_BYTES, NoCatalog


class Index(NamedTuple):
    """What the hub said, and by which tag it knows that again. `said` is None if it knows that nothing has changed."""

    said: bytes | None
    tag: str


async def ask_hub(url: str, tag: str, timeout_ms: int) -> Index:
    """Nothing but this address is asked: a hub that sends us elsewhere has not answered."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    if tag:
        headers["if-none-match"] = tag
    try:
        async with (
            asyncio.timeout(timeout_ms / 1000),
            httpx2.AsyncClient(follow_redirects=False, timeout=None, trust_env=False) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            return await _read(answer, tag)
    except TimeoutError:
        raise NoCatalog(f"no answer within {timeout_ms} ms") from None
    except httpx2.HTTPError as error:
        raise NoCatalog(f"{type(error).__name__}: {error}") from None


async def _read(answer: httpx2.Response, tag: str) -> Index:
    if tag and answer.status_code == httpx2.codes.NOT_MODIFIED:
        return Index(None, tag)
    if answer.has_redirect_location:
        raise NoCatalog("the hub sends us to another address, and is not followed")
    if answer.status_code != httpx2.codes.OK:
        raise NoCatalog(f"the hub answered {answer.status_code}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        # What was packed may be of any size when it is unpacked.
        raise NoCatalog("the hub packed its answer, and was asked not to")
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > MAX_BYTES:
            break
    tag = answer.headers.get("etag", "")
    # One that cannot be said in a question is none.
    return Index(bytes(body), tag if tag.isascii() else "")
