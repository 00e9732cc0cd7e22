"""Releases before this one, as the repository remembers them."""

from __future__ import annotations

import re
import subprocess
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_SCHEMA: Final = re.compile(r"^SCHEMA: Final = (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Release:
    """Where its sources are, and the schema of its records."""

    source: Path
    schema: int


def release_of(commit: str, directory: Path) -> Release:
    """That of a commit. Where there is none, as in an archive, the test is skipped."""
    try:
        packed = subprocess.run(
            ["git", "-C", _ROOT, "archive", commit, "src"], capture_output=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        pytest.skip(f"there is no earlier commit to get the release before from: {said}")
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    tables = (directory / "src/lingua_scheduler/store/tables.py").read_text("utf-8")
    found = _SCHEMA.search(tables)
    assert found is not None
    return Release(directory / "src", int(found[1]))
