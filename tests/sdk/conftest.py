"""A house for every test, and between it and the client a network that can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import House
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    """As it comes."""
    async with House(server.url).open() as house:
        yield house


@pytest.fixture
async def network(house: House) -> AsyncIterator[Proxy]:
    """The way to the house."""
    async with Proxy(house.port) as network:
        yield network
