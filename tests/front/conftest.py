"""A door for nodes on an engine of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fleet import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.fleet import Fleet
    from tests.support.servers import Server


@pytest.fixture
async def fleet(server: Server) -> AsyncIterator[Fleet]:
    async with opened(server.url) as fleet:
        yield fleet
