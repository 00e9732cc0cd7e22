"""Disks that can be filled and emptied again, with an embedded engine on them; neither needs root."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.engine_place import Place, engine_place

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is left is less than ten jobs need.
_LEFT_BYTES: Final = 2_000
_MOUNT: Final = 'mount -t tmpfs -o size=2m,mode=700 lingua "$0" && echo mounted && exec cat'


class Disk(ABC):
    """A place whose disk has an end."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def fill(self) -> None:
        """From now on the engine's file cannot grow, but for a little."""

    @abstractmethod
    def make_room(self) -> None:
        """There is room again."""


class LimitedFile(Disk):
    """The kernel lets this engine's files grow no further; the next engine is not bound by it."""

    def fill(self) -> None:
        (appended,) = (self.place.paths.data_dir / "appendonlydir").glob("*.incr.aof")
        self._limit(appended.stat().st_size + _LEFT_BYTES)

    def make_room(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        resource.prlimit(self.place.state().engine, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class SmallDisk(Disk):
    """A file system of two megabytes in memory, full for everybody: engine, guardian, log and locks."""

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                return

    def make_room(self) -> None:
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self.place.paths.data_dir / "ballast"


@contextmanager
def limited_file() -> Iterator[Disk]:
    with engine_place() as place:
        yield LimitedFile(place)


@contextmanager
def small_disk() -> Iterator[Disk]:
    """In a namespace of its own, where everybody may mount; skipped where the kernel does not let us have one."""
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("no unshare and nsenter, so no file system can be mounted here")
    data_dir = Path(tempfile.mkdtemp(prefix="lingua-test-")).resolve()
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    with holder:
        if holder.stdout.readline() != "mounted\n":
            shutil.rmtree(data_dir)
            pytest.skip(f"no file system can be mounted here: {holder.stderr.read().strip()}")
        enter = ["nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(holder.pid)]
        place = Place(data_dir, enter, Path(f"/proc/{holder.pid}/root{data_dir}"))
        try:
            yield SmallDisk(place)
        finally:
            place.close()
