"""How much is written down, by module, and how that is changed while the server runs.

All loggers of a process are one tree, so this is about the process. Only our own modules are spoken of.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.logs.log import LEVELS, get_log, look_again

if TYPE_CHECKING:
    from lingua_scheduler.config.logs import Logs

#: Whose level every module has that has none of its own.
ROOT: Final = "lingua_scheduler"
#: Takes back what was said of a module.
AS_SET: Final = "default"
MOST_S: Final = 86_400

log = get_log(__name__)


def check_module(name: str) -> str:
    """`front.door` or `lingua_scheduler.front.door`: a module of ours that is there; "" is all of them."""
    full = name if name == ROOT or name.startswith(f"{ROOT}.") else f"{ROOT}.{name}" if name else ROOT
    if full not in sys.modules:
        raise Invalid("module must be one of the scheduler's that runs, like front.door or loops")
    return full


def check_level(name: str) -> str:
    """A level by its name, or `default`."""
    if name in LEVELS or name == AS_SET:
        return name
    raise Invalid(f"level must be one of {', '.join((*LEVELS, AS_SET))}")


def _names(settings: Logs) -> dict[str, str]:
    pairs = (one.partition("=") for one in settings.levels)
    return {ROOT: settings.level} | {f"{ROOT}.{name.removeprefix(f'{ROOT}.')}": level for name, _, level in pairs}


def _apply(module: str, level: str | None) -> None:
    logging.getLogger(module).setLevel(logging.NOTSET if level is None else LEVELS[level])


def begin_with(settings: Logs) -> None:
    """The levels of the settings."""
    for module, level in _names(settings).items():
        _apply(module, level)
    look_again()


class Levels:
    """What is set beside the settings, and for how long."""

    def __init__(self, settings: Logs) -> None:
        self._settings = _names(settings)
        self._ends: dict[str, asyncio.TimerHandle] = {}
        #: By module: the level, and the end of it by the loop's clock.
        self.changed: dict[str, tuple[str, float | None]] = {}

    def now(self) -> dict[str, tuple[str, float | None]]:
        """Every module of which something is said: its level, and for how many seconds more."""
        clock = asyncio.get_running_loop().time()
        said = {module: (level, None) for module, level in self._settings.items()} | self.changed
        return {
            module: (level, None if end is None else max(0.0, end - clock)) for module, (level, end) in said.items()
        }

    def of(self, name: str) -> dict[str, tuple[str, float | None]]:
        """The level that counts for a module, which may be that of what it is in, and what is said of those in it."""
        module, said = check_module(name), self.now()
        nearest = module
        while nearest not in said:
            nearest = nearest.rpartition(".")[0]
        return {module: said[nearest]} | {one: how for one, how in said.items() if one.startswith(f"{module}.")}

    def set(self, module: str, level: str, seconds: float | None = None, who: str = "") -> str:
        """Set the level of a module, for a while or until somebody says otherwise. Returns the module's full name."""
        module, level = check_module(module), check_level(level)
        if seconds is not None and not 0 < seconds <= MOST_S:
            raise Invalid(f"for_s must be more than 0 and at most {MOST_S}")
        self._forget(module)
        if level == AS_SET:
            _apply(module, self._settings.get(module))
        else:
            _apply(module, level)
            loop = asyncio.get_running_loop()
            self.changed[module] = level, None if seconds is None else loop.time() + seconds
            if seconds is not None:
                self._ends[module] = loop.call_later(seconds, self.set, module, AS_SET)
        look_again()
        log.warning("log_level", module_set=module, level_set=level, seconds=seconds, who=who)
        return module

    def begin_anew(self, settings: Logs) -> None:
        """The settings were read again: they count, and what was said beside them is over."""
        for module in {*self._settings, *self.changed}:
            self._forget(module)
            _apply(module, None)
        self._settings = _names(settings)
        begin_with(settings)
        log.warning("log_level", module_set=ROOT, level_set=settings.level, detail="the settings were read again")

    def close(self) -> None:
        """All is as the settings have it."""
        for module in [*self.changed]:
            self._forget(module)
            _apply(module, self._settings.get(module))
        look_again()

    def _forget(self, module: str) -> None:
        self.changed.pop(module, None)
        end = self._ends.pop(module, None)
        if end is not None:
            end.cancel()
