"""What every section of the settings has in common."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

#: In a file a list; in the environment, with commas.
Listed = Annotated[tuple[str, ...], Field(strict=False)]


class Section(BaseModel):
    """Settings that belong to one idea."""

    # Strict: TOML has types, so `port = "5010"` and `port = true` are mistakes worth hearing of.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
