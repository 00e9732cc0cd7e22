"""How much is done in a run: as the figures are meant, or, with BENCH_BRIEF=1, only enough to see that it works."""

from __future__ import annotations

import os
from typing import Final

#: The figures of such a run mean nothing, and are held against nothing.
IS_BRIEF: Final = os.environ.get("BENCH_BRIEF", "") not in {"", "0"}


def amount(usual: int, brief: int) -> int:
    """The one or the other."""
    return brief if IS_BRIEF else usual
