"""Debian's Redis: the one that `./dev test` installed, or unpacked where nobody may install anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Where `./dev` unpacks it.
_UNPACKED: Final = Path(__file__).parents[2] / ".debian"

#: Debian has the server in this file, too, and with it no service that would be started. Which of them it is, it knows
#: by the name that it is called by.
_NAMES: Final = ("redis-server", "redis-check-rdb")
_OLDEST: Final = 7


@dataclass(frozen=True, slots=True)
class Binary:
    """A server, where it finds what it needs, and by which name it is called: that tells it what it is."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)
    called: str = "redis-server"


class Missing(Exception):
    """There is no Redis on this machine."""


def find_redis() -> Binary:
    """Redis 7, or newer where Debian is."""
    libraries = ":".join(str(place) for place in sorted(_UNPACKED.glob("usr/lib/*")) if place.is_dir())
    unpacked = [(_UNPACKED / "usr/bin" / name, {"LD_LIBRARY_PATH": libraries}) for name in _NAMES]
    installed: list[tuple[Path, dict[str, str]]] = [
        (Path(found), {}) for name in _NAMES if (found := shutil.which(name)) is not None
    ]
    for path, environment in (*unpacked, *installed):
        if path.exists() and _major(path, environment) >= _OLDEST:
            return Binary(path, environment)
    raise Missing(
        "these tests run on Debian's Redis 7, and there is none: `./dev test` installs it as root, and unpacks it into "
        ".debian as anybody else; both need apt-get and its servers. Without it: --engine embedded"
    )


def _major(path: Path, environment: dict[str, str]) -> int:
    """The first number of its version; 0 if it does not run."""
    asked = subprocess.run(
        ["redis-server", "--version"],
        executable=path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r" v=(\d+)\.", asked.stdout)
    return int(found[1]) if found else 0
