"""A child that goes when its parent goes, however that went.

The parent holds the other end of the child's standard input and never writes. When the parent ends, even by SIGKILL,
the kernel closes that end, and the child is gone a moment later. That works wherever there are pipes; PR_SET_PDEATHSIG
is Linux's alone.

    python -m lingua_scheduler.operate.leash serve --port 0      # `lingua serve --port 0` on a leash
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

_LET_GO: Final = 1


def hold() -> None:
    """From now on this process ends with its standard input, at once: nobody is left to whom it could matter."""
    threading.Thread(target=_wait_for_the_end, name="leash", daemon=True).start()


def _wait_for_the_end() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(_LET_GO)


if __name__ == "__main__":
    hold()
    from lingua_scheduler.operate.cli import main

    main()
