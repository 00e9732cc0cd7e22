"""Two schedulers on one engine; at the end the auditor looks at everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scenarios.doors.conftest import serve

if TYPE_CHECKING:
    from tests.scenarios.doors.conftest import Start
    from tests.support.house import Scheduler

__all__ = ["serve"]


@pytest.fixture
async def here(serve: Start) -> Scheduler:
    """One of them; it is soon known when another is gone."""
    return await serve(instance__presence_ttl_ms="1500", instance__presence_beat_ms="300")


@pytest.fixture
async def there(serve: Start) -> Scheduler:
    """The other."""
    return await serve(instance__presence_ttl_ms="1500", instance__presence_beat_ms="300")
