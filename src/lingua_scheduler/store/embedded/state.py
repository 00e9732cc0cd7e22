"""What the guardian tells the users: a small file in the data directory, replaced as a whole."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class State:
    """Who serves this data directory now. `failure` is empty, or why the engine does not stay up."""

    guardian: int
    engine: int
    durability: str
    failure: str = ""


def write_state(path: Path, state: State) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(state)))
    fresh.replace(path)


def read_state(path: Path) -> State | None:
    """The guardian's last word, or None while there is none."""
    try:
        found = json.loads(path.read_text())
        return State(
            guardian=int(found["guardian"]),
            engine=int(found["engine"]),
            durability=str(found["durability"]),
            failure=str(found["failure"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def log_tail(path: Path, lines: int = 15) -> str:
    """The last lines of the log, for an error message."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
            text = log.read().decode(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"
