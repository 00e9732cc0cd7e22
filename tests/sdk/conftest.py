"""A scheduler in the test's own process; at the end the auditor looks at everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server


@pytest.fixture
async def house(server: Server) -> AsyncIterator[House]:
    async with House(server.url).open() as house:
        yield house
