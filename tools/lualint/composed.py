"""The scripts as the engine gets them: composed, with everything that they include."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lingua_scheduler.store.scripts import compose
from tools.lualint.names import unknown_globals
from tools.lualint.source import TOP_LOCAL, Source
from tools.lualint.tree import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.lualint.source import Complaint


def check_composed(source: Source) -> Iterator[Complaint]:
    """Whether the script composes, and what is wrong with the outcome."""
    place = source.path.relative_to(source.root).with_suffix("").as_posix()
    try:
        script = compose(place, lambda path: (source.root / f"{path}.lua").read_text(encoding="utf-8"))
    except (ValueError, FileNotFoundError) as error:
        yield source.complain(1, f"does not compose: {error}")
        return
    composed = Source(source.path, source.root, script.source, parse(script.source), ())
    for complaint in (*composed.syntax_errors(), *unknown_globals(composed)):
        line = script.source.split("\n")[complaint.line - 1].strip()
        yield source.complain(1, f"composed: {complaint.text} (line {complaint.line}: {line})")
    yield from _doubled_state(source, script.source)


def _doubled_state(source: Source, composed: str) -> Iterator[Complaint]:
    """State that is brought in once for each of two blocks: one would not see what the other wrote."""
    lines = Counter(line.strip() for line in composed.split("\n"))
    for path in sorted((source.root / "flows" / "shared").glob("*.lua")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            found = TOP_LOCAL.match(line)
            if found and found["names"] and lines[line.strip()] > 1:
                yield source.complain(1, f"the state of {path.stem} exists twice: include it at the left margin")
