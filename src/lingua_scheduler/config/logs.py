"""What is written down."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final, Literal

from pydantic import Field, field_validator

from lingua_scheduler.config.section import Listed, Section

Level = Literal["debug", "info", "warning", "error"]

_OURS: Final = "lingua_scheduler"
_ONE: Final = re.compile(r"[a-z_.]+=(debug|info|warning|error)").fullmatch


class Logs(Section):
    """What the server writes to standard error: JSON, or words if that is a terminal. SIGHUP reads these again."""

    level: Level = Field(default="info", description="What is at least so grave is written down.")
    levels: Listed = Field(
        default=(),
        max_length=100,
        description="The same for some modules, each like `front.door=debug`. See also `lingua log-level`.",
    )

    @field_validator("levels")
    @classmethod
    def _are_levels(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [one for one in values if not _ONE(one)]
        if wrong:
            raise ValueError(f"{wrong[0][:80]!r} is not like front.door=debug")
        nobody = [one for one in values if not _is_module(one.partition("=")[0])]
        if nobody:
            raise ValueError(f"{nobody[0][:80]!r} names no module of the scheduler; all of it is logs.level")
        return values


def _is_module(name: str) -> bool:
    """Whether there is such a one. It need not be loaded yet, and is not for this; only what it is in."""
    try:
        return find_spec(f"{_OURS}.{name.removeprefix(f'{_OURS}.')}") is not None
    except ImportError:
        return False
