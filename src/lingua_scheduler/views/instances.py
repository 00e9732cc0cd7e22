"""instances: who stands in the directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.store.face import Answer, Face, pack
from lingua_scheduler.store.keys import DIRECTORY

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine


class Directory(Answer, frozen=True, tag="INSTANCES"):
    """What time it is, and when each instance last beat. Some of them may be gone."""

    now_ms: int
    beats: list[tuple[str, int]]


_INSTANCES: Final = Face("views/instances", Directory)


async def read_directory(engine: Engine) -> Directory:
    """Everybody who has an inbox, those who have not beaten for longest first."""
    answer = await _INSTANCES(engine, DIRECTORY, pack(()))
    assert isinstance(answer, Directory)  # noqa: S101 - it refuses nothing
    return answer
