"""A user of the embedded engine in DATA_DIR: says one line when it is ready, and leaves when it reads one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from lingua_scheduler.store.embedded import Embedded


async def main(data_dir: str, *, fork: bool, fsync: bool) -> None:
    async with Embedded(data_dir, "fsync" if fsync else "default") as engine:
        child = os.fork() if fork else 0
        if fork and child == 0:
            signal.pause()
        sys.stdout.write(json.dumps({"socket": str(engine.socket_path), "child": child}) + "\n")
        sys.stdout.flush()
        leave = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, leave.set)
        await leave.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], fork="--fork" in sys.argv, fsync="--fsync" in sys.argv))
