"""How much schedulers write down, as operators see and set it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from lingua_scheduler.protocol.codec import Reader
from lingua_scheduler.protocol.fields import Message


class LogLevelRequest(Message, frozen=True, kw_only=True):
    """The level of a module; with `for_s` only for so many seconds. `default`: as the settings have it."""

    module: Annotated[str, msgspec.Meta(max_length=128)]
    level: Literal["debug", "info", "warning", "error", "default"]
    for_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None


class LogLevelAnswer(Message, frozen=True, kw_only=True):
    """It is set here, and these others were told."""

    ok: bool
    module: str
    level: str
    instances: list[str]
    for_s: float | None = None


class ModuleLevel(Message, frozen=True, kw_only=True):
    """The level of a module and of what is in it, and for how many seconds more."""

    module: str
    level: str
    for_s: float | None = None


class LogLevelsAnswer(Message, frozen=True, kw_only=True):
    """Of which modules something is said, on the instance that answers; the first is all of them."""

    instance_id: str
    modules: list[ModuleLevel]


read_log_level: Final = Reader(LogLevelRequest)
