"""Where everything lives: the data directory with its locks and log, and a socket path that can be bound."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lingua_scheduler.core.errors import EngineFailed

#: The kernel takes 107 bytes on Linux and 103 on macOS, and says "invalid argument" to more.
SOCKET_BYTES_MAX: Final = 100

#: Not tempfile.gettempdir(): processes with another TMPDIR must come to the same path.
_SHORT_PLACE: Final = Path("/tmp")  # noqa: S108 - a private directory in it, checked below


#: Temporary directories of ours begin so.
TEMPORARY_PREFIX: Final = "lingua-"


@dataclass(frozen=True, slots=True)
class Paths:
    """The files of one embedded engine."""

    data_dir: Path
    socket: Path

    @property
    def users_lock(self) -> Path:
        return self.data_dir / "users.lock"

    @property
    def guardian_lock(self) -> Path:
        return self.data_dir / "guardian.lock"

    @property
    def engine_lock(self) -> Path:
        return self.data_dir / "engine.lock"

    @property
    def state(self) -> Path:
        return self.data_dir / "state.json"

    @property
    def log(self) -> Path:
        return self.data_dir / "engine.log"

    @property
    def temporary(self) -> Path:
        """If this file exists, the guardian removes the whole directory when it leaves."""
        return self.data_dir / "temporary"


def paths_of(data_dir: Path) -> Paths:
    """The paths for an existing data directory, the same for every process that asks."""
    beside = data_dir / "engine.sock"
    if len(os.fsencode(beside)) <= SOCKET_BYTES_MAX:
        return Paths(data_dir, beside)
    import hashlib  # noqa: PLC0415 - only needed here, and the guardian never comes here

    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Paths(data_dir, bindable(_SHORT_PLACE / f"lingua-{os.geteuid()}-{name}" / "engine.sock"))


def bindable(socket: Path) -> Path:
    """The same path, if the kernel will take it for a socket."""
    if (size := len(os.fsencode(socket))) > SOCKET_BYTES_MAX:
        raise EngineFailed(
            f"the socket path {socket} has {size} bytes, and a Unix socket takes {SOCKET_BYTES_MAX}: use a shorter path"
        )
    return socket


def make_data_dir(wanted: Path) -> Path:
    """The real path of the data directory, made if needed, ours and closed to others."""
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        data_dir = wanted.resolve(strict=True)
        found = data_dir.stat()
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
            # An empty one was made for us, by a volume mount perhaps. A full one is somebody's: `.`, a home.
            if any(data_dir.iterdir()) and not (data_dir / "users.lock").exists():
                raise EngineFailed(
                    f"the data directory {data_dir} is open to other users and holds other files: "
                    "give a subdirectory of it, which will be made private"
                )
            data_dir.chmod(0o700)
    except OSError as error:
        raise EngineFailed(f"the data directory {wanted} cannot be used: {error}") from error
    if found.st_uid != os.geteuid():
        raise EngineFailed(f"the data directory {data_dir} belongs to another user: give a subdirectory of your own")
    return data_dir


def make_socket_dir(socket: Path) -> None:
    """Makes the socket's directory, private; one that somebody else made is refused, not used."""
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    if not is_private(socket.parent):
        raise EngineFailed(f"{socket.parent} is not a private directory of this user: remove it")


def is_private(directory: Path) -> bool:
    """Whether this is a directory of ours, not a link to one, that nobody else can enter."""
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0
