"""What was written down, as a test reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def told(caplog: pytest.LogCaptureFixture, event: str | None = None) -> list[dict[str, Any]]:
    """The events of ours, or those of one name: their fields, and their level."""
    found = [
        dict(record.msg) | {"level": record.levelname} for record in caplog.records if isinstance(record.msg, dict)
    ]
    return [one for one in found if event in {None, one["event"]}]
