"""Makes every sync of a Python process slow, with this directory on PYTHONPATH."""

import os
import time
from pathlib import Path
from typing import Any

_sync_now = os.fdatasync


def _sync_late(fd: Any) -> None:
    with Path(os.environ["SLOW_SYNC_WITNESS"]).open("a") as witness:
        witness.write("s")
    time.sleep(0.4)
    _sync_now(fd)


os.fdatasync = _sync_late
