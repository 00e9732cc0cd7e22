"""Which tests may notice a mutant, and which of them to ask first."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from tools.mutation.overlay import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tools.mutation.mutants import Mutant
    from tools.mutation.worker import Verdict

#: The tests that mutants are run against: each folder only where the one before noticed nothing.
FOLDERS: Final = ("tests/flows", "tests/property")

#: They break the Lua themselves, and would take a mutant for a mistake of theirs.
NOT_ASKED: Final = "tests/property/test_planted_bugs.py"


class Plan:
    """What the tests did without any mutant tells which of them can notice one."""

    def __init__(self, root: Path, baseline: Verdict) -> None:
        self._calls = {test: set(called) for test, called in baseline.calls.items()}
        self._seconds = baseline.seconds
        package = root / "src" / "lingua_scheduler"
        found = [*package.glob("flows/*.lua"), *package.glob("views/*.lua")]
        self._scripts = sorted(path.relative_to(package).with_suffix("").as_posix() for path in found)

    def tests_for(self, mutant: Mutant, first: Sequence[str] = ()) -> list[str]:
        """Those that run a script with the mutant in it: its own tests first, quick ones before slow ones.

        Those in `first` go before all others, in that order. A search speaks to the engine without a face, so nobody
        knows what it calls.
        """
        hinted = {test: number for number, test in reversed(list(enumerate(first)))}
        names = {script.rsplit("/", 1)[-1] for script in self._scripts if mutant.path in _parts_of(script)}
        files = {f"test_{name}.py" for name in names}

        def rank(test: str) -> tuple[int, int, bool, float]:
            return hinted.get(test, len(first)), _folder(test), _file(test) not in files, self._seconds[test]

        found = (test for test, called in self._calls.items() if called & names or (_folder(test) and not called))
        return sorted(found, key=rank)

    def seconds(self, tests: Iterable[str]) -> float:
        """How long these tests took without any mutant."""
        return sum(self._seconds[test] for test in tests)


def _folder(test: str) -> int:
    return next((number for number, folder in enumerate(FOLDERS) if test.startswith(folder)), len(FOLDERS))


def _file(test: str) -> str:
    return test.split("::", 1)[0].rsplit("/", 1)[-1]


_parts_of = functools.cache(parts_of)
