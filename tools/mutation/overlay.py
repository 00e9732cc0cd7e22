"""How broken Lua gets into a running process: the composer reads it in place of the packaged file.

Faces hold their scripts from import on. So the packaged scripts are remembered as they are composed, and when a file
changes, those that contain it are composed again and written over in place.
"""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import TYPE_CHECKING

from lingua_scheduler.store import scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingua_scheduler.store.scripts import Read, Script


class Overlay:
    """Made before any flow is imported: it sees every packaged script as it is composed."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._composed: dict[str, Script] = {}
        self._compose = scripts.compose
        # Read once: who edits a flow meanwhile must not change what the mutants are compared with.
        self._packaged = functools.cache(scripts.read_packaged)
        vars(scripts).update(compose=self._remember, read_packaged=self.read)

    def read(self, path: str) -> str:
        """The text that stands for the packaged file."""
        return self._texts.get(path) or self._packaged(path)

    def install(self, texts: Mapping[str, str]) -> None:
        """Put these texts in the place of the packaged files, in the scripts that are already held by faces too."""
        self._texts |= texts
        for path, held in self._composed.items():
            fresh = self._compose(path, self.read)
            for field in fields(held):
                object.__setattr__(held, field.name, getattr(fresh, field.name))

    def _remember(self, path: str, read: Read) -> Script:
        script = self._compose(path, read)
        if read == self.read:
            self._composed[path] = script
        return script


def parts_of(path: str) -> frozenset[str]:
    """The files that the script `path` is composed from."""
    found: set[str] = set()

    def read(part: str) -> str:
        found.add(part)
        return scripts.read_packaged(part)

    scripts.compose(path, read)
    return frozenset(found)
