"""What an earlier run found out: a verdict holds while neither the scripts nor the tests have changed."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from tools.mutation.mutants import Mutant

#: So many tests that noticed other mutants of a file are asked first about the next one.
_KEEN: Final = 20
_BETWEEN: Final = " | "


class Remembered(msgspec.Struct):
    """The test that noticed the mutant, or "", and what the sources were then."""

    by: str
    why: str
    under: str


class Memory:
    """Verdicts of earlier runs, in a file that may be deleted at any time."""

    def __init__(self, root: Path) -> None:
        self._path = root / ".mutate" / "memory.json"
        self._under = _digest(root)
        self._known: dict[str, Remembered] = {}
        if self._path.exists():
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Remembered])
        self._keen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, known in self._known.items():
            self._keen[key.split(_BETWEEN)[0]][known.by] += 1

    def verdict(self, mutant: Mutant, scope: str) -> Remembered | None:
        """What a run under the same sources said; `scope` is what else it depends on."""
        known = self._known.get(_key(mutant))
        if known is None:
            return None
        # Who noticed it before will notice it again, whatever else was run; who did not, was asked in that scope.
        under = self._under if known.by else self._under + scope
        return known if known.under == under else None

    def hints(self, mutant: Mutant) -> list[str]:
        """The test that noticed it once, and those that most often notice what is wrong in its file."""
        known = self._known.get(_key(mutant))
        return ([known.by] if known else []) + [test for test, _ in self._keen[mutant.path].most_common(_KEEN)]

    def note(self, mutant: Mutant, scope: str, by: str, why: str) -> None:
        """Remember a verdict."""
        self._known[_key(mutant)] = Remembered(by, why, self._under if by else self._under + scope)
        self._keen[mutant.path][by] += 1

    def save(self) -> None:
        """Write it all down."""
        self._path.parent.mkdir(exist_ok=True)
        (self._path.parent / ".gitignore").write_text("*\n", encoding="utf-8")
        self._path.write_bytes(msgspec.json.encode(self._known))


def _key(mutant: Mutant) -> str:
    return _BETWEEN.join(mutant.key)


def _digest(root: Path) -> str:
    """Everything that a verdict depends on: the package and the tests of flows."""
    digest = hashlib.sha1(usedforsecurity=False)
    folders = ("src/lingua_scheduler", "tests/flows", "tests/property", "tests/support")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.suffix in {".py", ".lua"}]
    for path in sorted([*files, root / "tests" / "conftest.py"]):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
