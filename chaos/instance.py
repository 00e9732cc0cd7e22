"""`lingua serve` on a leash, with a clock on the wall that is off: `python -m chaos.instance SECONDS serve …`."""

from __future__ import annotations

import sys
import time

from lingua_scheduler.operate import leash


def shift(off_s: int) -> None:
    """From now on this process believes that it is so much later."""
    true_s, true_ns = time.time, time.time_ns
    time.time = lambda: true_s() + off_s
    time.time_ns = lambda: true_ns() + off_s * 1_000_000_000


if __name__ == "__main__":
    shift(int(sys.argv.pop(1)))
    leash.hold()
    from lingua_scheduler.operate.cli import main

    main()
