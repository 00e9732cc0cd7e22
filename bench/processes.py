"""What a process costs, by the kernel's count: CPU time and memory. And how it is ended."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
#: Fields of /proc/PID/stat, counted from behind the name.
_PPID, _UTIME, _STIME = 1, 11, 12


def cpu_us(pid: int) -> float:
    """The CPU time of a process, all its threads, in µs. The kernel counts nanoseconds here, of threads that live."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def family_cpu_us(pid: int) -> float:
    """The CPU time of a process and of all that descend from it, in µs. The kernel counts ticks here, some 10 ms."""
    ticks = 0
    for member in _family(pid):
        with suppress(OSError):  # it went while we looked
            fields = _stat(member)
            ticks += int(fields[_UTIME]) + int(fields[_STIME])
    return ticks * 1e6 / _TICKS_PER_S


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def end(process: subprocess.Popen[bytes], patience_s: float = 5) -> None:
    """Ask a process to stop, and do not take no for an answer."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _family(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[_PPID]), []).append(int(entry.name))
    members = [pid]
    for member in members:
        members += children.get(member, [])
    return members


def _stat(pid: int) -> list[str]:
    """The fields behind the name, which may have spaces and brackets in it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
