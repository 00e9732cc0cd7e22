"""Named strings, the same in Lua and Python: states, refusals, answers."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.job_state import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tools.lualint.source import Complaint, Source
    from tools.lualint.tree import Node

_CODE: Final = re.compile(r"[A-Z]{2,}(_[A-Z]+)*")


def known_to_python(root: Path) -> frozenset[str]:
    """Job states, refusal codes, and the answers that the flows' typed faces spell out."""
    known: set[str] = set(STATES)
    with contextlib.suppress(ImportError):
        known |= set(importlib.import_module("lingua_scheduler.core.refusal").CODES)
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
                known.add(node.value)
    return frozenset(known)


def spelled(sources: Iterable[Source]) -> dict[str, int]:
    """How often each code stands in all of the Lua."""
    return Counter(code for source in sources for _, code in _codes(source.tree))


def check_codes(source: Source, known: frozenset[str], words: dict[str, int]) -> Iterator[Complaint]:
    """Codes that Python does not know; a plain word may be Lua's own if it is spelled the same way twice."""
    for node, code in _codes(source.tree):
        if code not in known and ("_" in code or words[code] == 1):
            yield source.complain(node, f"Python does not know the code {code!r}")
    for node in source.tree.walk():
        if node.type == "string_content" and "--" in node.text:
            yield source.complain(node, "the composer would take -- in a string for a comment")


def _codes(node: Node, in_command: bool = False) -> Iterator[tuple[Node, str]]:
    if node.type == "string_content":
        if not in_command and _CODE.fullmatch(node.text):
            yield node, node.text
        return
    if node.type == "function_call":
        in_command = node.children[0].text in {"redis.call", "redis.pcall"}
    elif node.type in {"table_constructor", "function_definition", "block"}:
        in_command = False
    for child in node.inner:
        yield from _codes(child, in_command)
