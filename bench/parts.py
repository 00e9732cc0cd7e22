"""What every bench does around its figures: which parts of it, what is said meanwhile, what was missed, and as JSON."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench.amounts import IS_BRIEF

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Figures = dict[str, Any]
    Say = Callable[[str], None]
    #: A title, and what measures.
    Part = tuple[str, Callable[[Say], Figures]]


def measure_parts(parts: Mapping[str, Part], chosen: Sequence[str], keys: Collection[str], say: Say) -> Figures:
    """The figures of these parts; null where nothing was measured. One that breaks off says why, the others go on."""
    found: Figures = dict.fromkeys(keys)
    for name in chosen:
        title, measure = parts[name]
        say(title)
        begun = time.monotonic()
        try:
            found |= measure(say)
        except Exception as broken:  # noqa: BLE001 - whatever it was, the others have figures
            say(f"{name} broke off: {last_words(broken)}")
        found.setdefault("seconds", {})[name] = round(time.monotonic() - begun)
    return found


def last_words(broken: Exception) -> str:
    """What went wrong, in one line: of what a process said before it ended, the last."""
    lines = str(broken).strip().splitlines()
    return f"{type(broken).__name__}: {lines[-1]}" if lines else type(broken).__name__


def run_bench(
    name: str,
    about: str,
    measure: Callable[[Sequence[str], Say], Figures],
    show: Callable[[Figures, Console], None],
    judge: Callable[[Figures, Sequence[str]], list[str]],
    parts: Collection[str] = (),
) -> int:
    """Measure, show, judge. `parts`: those of which somebody may want only some."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {name}", description=about)
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    if parts:
        parser.add_argument("--only", default=",".join(parts), help=f"some of {','.join(parts)}")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if parts else []
    if unknown := set(chosen) - set(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    console = Console(stderr=True)
    found = measure(chosen, lambda what: console.print(f"… {what}", markup=False))
    show(found, console if arguments.json else Console())
    missed = [] if IS_BRIEF else judge(found, chosen)
    for line in missed:
        console.print(f"[red]missed[/]: {line}")
    if arguments.json:
        print(json.dumps(found))
    return 1 if missed else 0
