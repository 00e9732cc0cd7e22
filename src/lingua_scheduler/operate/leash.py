"""A child that goes when its parent goes, however that went.

The parent holds the other end of the child's standard input, and writes only to whoever listens there. When the parent
ends, even by SIGKILL, the kernel closes that end, and the child is gone a moment later. That works wherever there are
pipes; PR_SET_PDEATHSIG is Linux's alone.

    python -m lingua_scheduler.operate.leash serve --port 0      # `lingua serve --port 0` on a leash
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LET_GO: Final = 1


def hold(hear: Callable[[str], object] = str) -> None:
    """From now on this process ends with its standard input, at once: nobody is left to whom it could matter.

    Until then `hear` is called with every line, in a thread of its own.
    """
    threading.Thread(target=_wait_for_the_end, args=(hear,), name="leash", daemon=True).start()


def _wait_for_the_end(hear: Callable[[str], object]) -> None:
    # Not by `sys.stdin`: an interpreter that ends while a thread reads from that one aborts.
    pending = b""
    while heard := os.read(sys.stdin.fileno(), 4096):
        *lines, pending = (pending + heard).split(b"\n")
        for line in lines:
            hear(line.decode())
    os._exit(_LET_GO)


if __name__ == "__main__":
    hold()
    from lingua_scheduler.operate.cli import main

    main()
