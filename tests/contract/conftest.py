"""A house of its own for every test: the whole scheduler in this process, on real sockets and a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """As it comes."""
    async with House(server.url).open() as house:
        yield house
