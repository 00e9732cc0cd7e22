"""A lint for our Lua: what Lua 5.1 would accept and a reader, or production at night, would not.

tree      the syntax tree
source    a file, and what its includes bring in
layout    lines, headers, what a shared file may hold
names     globals, locals, includes, ARGV by number
codes     named strings that Python must know
composed  the scripts as the engine gets them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.lualint.codes import check_codes, known_to_python, spelled
from tools.lualint.composed import check_composed
from tools.lualint.layout import check_layout
from tools.lualint.names import check_names
from tools.lualint.source import Complaint, Source, read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Complaint", "lint"]


def lint(root: Path, paths: Iterable[Path] | None = None, known: frozenset[str] | None = None) -> list[Complaint]:
    """Complaints about `paths`, or about everything under `root`, the folder that holds `flows`."""
    known = known_to_python(root) if known is None else known
    everything = [read(path, root) for path in sorted(root.rglob("*.lua"))]
    words = spelled(everything)
    wanted = None if paths is None else {path.resolve() for path in paths}
    complaints: list[Complaint] = []
    for source in everything:
        if wanted is None or source.path.resolve() in wanted:
            complaints += _check(source, known, words)
    return sorted(complaints)


def _check(source: Source, known: frozenset[str], words: dict[str, int]) -> list[Complaint]:
    complaints = [*check_layout(source)]
    if broken := [*source.syntax_errors()]:
        return complaints + broken
    complaints += check_names(source)
    complaints += check_codes(source, known, words)
    if not source.shared:
        complaints += check_composed(source)
    return complaints
