from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Server, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_server(tmp_path_factory.mktemp("engine"))
    yield server
    server.stop()
