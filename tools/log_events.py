"""Every event that the server writes down, as the code has it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES: Final = Path(__file__).parents[1] / "src" / "lingua_scheduler"
_METHODS: Final = {"debug", "info", "warning", "error", "exception"}
#: Fields that are no fields of the line: what they bring is told otherwise.
_HANDED: Final = {"exc_info"}
_ANSWER: Final = ("outcome", "reason")


class Written(NamedTuple):
    """One call. Without a name: the event has the name of the flow that ran."""

    module: str
    line: int
    level: str
    event: str
    fields: tuple[str, ...]


def log_events(sources: Path = SOURCES) -> list[Written]:
    """All calls of `log.…` in the server, by event."""
    found = []
    for path in sorted(sources.rglob("*.py")):
        if "sdk" not in path.relative_to(sources).parts:
            module = ".".join(path.relative_to(sources).with_suffix("").parts)
            found += [*_in(ast.parse(path.read_text(encoding="utf-8")), module)]
    return sorted(found, key=lambda one: (one.event, one.module, one.line))


def _in(tree: ast.AST, module: str) -> Iterator[Written]:
    # `tell = log.info if … else log.debug` is both.
    names = {"tell": ("info", "debug")}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="log"), attr=method) if method in _METHODS:
                levels: tuple[str, ...] = ("error" if method == "exception" else method,)
            case ast.Name(id=name) if name in names and module == "flows.mark":
                levels = names[name]
            case _:
                continue
        first = call.args[0]
        event = str(first.value) if isinstance(first, ast.Constant) else ""
        fields = [str(one.arg) for one in call.keywords if one.arg not in _HANDED]
        told = [name for field in fields for name in (_ANSWER if field == "answer" else (field,))]
        yield Written(module, call.lineno, " or ".join(levels), event, tuple(dict.fromkeys(told)))
