"""The documents of everything that is served, for programs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lingua_scheduler.front.auth import PAGE
from lingua_scheduler.front.handlers import pages
from lingua_scheduler.front.openapi import asyncapi, openapi
from lingua_scheduler.front.web import Reply, Route
from lingua_scheduler.protocol.codec import encode

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request


def with_documents(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """These routes, those of the pages, and those of their documents, which tell of themselves, too."""

    @cache
    def described() -> Reply:
        return Reply(encode(openapi(everything)))

    async def openapi_json(_desk: Desk, _request: Request) -> Reply:
        """OpenAPI 3.1."""
        return described()

    documents = tuple(
        Route("GET", path, PAGE, handle, summary, tag="documents", asks_engine=False)
        for path, handle, summary in (
            ("/openapi.json", openapi_json, "What can be asked, for programs."),
            ("/asyncapi.json", asyncapi_json, "What the sockets speak, for programs."),
        )
    )
    everything = (*routes, *documents, *pages.ROUTES)
    return everything


async def asyncapi_json(_desk: Desk, _request: Request) -> Reply:
    """AsyncAPI 3."""
    return _asyncapi()


@cache
def _asyncapi() -> Reply:
    return Reply(encode(asyncapi()))
