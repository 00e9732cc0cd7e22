"""What can be broken in a Lua file: each mutant is one small mistake that somebody could make."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.lualint.tree import parse, parses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.lualint.tree import Node

#: Each operator with what it may be mistaken for.
_OPERATORS: Final[dict[str, tuple[str, ...]]] = {
    "==": ("~=",),
    "~=": ("==",),
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "and": ("or",),
    "or": ("and",),
    "+": ("-",),
    "-": ("+",),
}
_WORDS: Final = {"true": "false", "false": "true", "math.min": "math.max", "math.max": "math.min"}
_STATEMENTS: Final = {
    "function_call",
    "assignment_statement",
    "if_statement",
    "for_statement",
    "while_statement",
    "return_statement",
}
_BLOCKS: Final = {"block", "chunk"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one mistake in it.

    `path` is the file as the composer names it, `flows/ack`. `change` and `source`, the line as it was, name the
    mutant for good: line numbers move, and the same change to an equal line further down has `#2` at its end.
    """

    path: str
    line: int
    source: str
    change: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is called in the file of explanations."""
        return self.path, self.source, self.change

    def __str__(self) -> str:
        return f"{self.path}.lua:{self.line}: {self.change}: {self.source}"


def mutants(path: str, text: str) -> list[Mutant]:
    """Every mutant of a file that is still a Lua program, in the order of its lines."""
    lines = text.split("\n")
    tree = parse(_lua(text))
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    for node, change, start, end, after in sorted(_changes(tree, None), key=lambda each: (each[2], each[3], each[1])):
        broken = text[:start] + after + text[end:]
        if parses(_lua(broken)):
            source = lines[node.line - 1].strip()
            seen[source, change] += 1
            number = seen[source, change]
            found.append(Mutant(path, node.line, source, f"{change} #{number}" if number > 1 else change, broken))
    return found


def _lua(text: str) -> str:
    """Without the first line, which Redis reads itself; every character keeps its place."""
    first = text.index("\n") if text.startswith("#!") else 0
    return " " * first + text[first:]


_Change = tuple["Node", str, int, int, str]


def _changes(node: Node, parent: Node | None) -> Iterator[_Change]:
    """Node, name of the change, and what to put in the place of which characters."""
    end = node.start + len(node.text)
    if node.type in _STATEMENTS and parent is not None and parent.type in _BLOCKS:
        yield node, "dropped", node.start, end, ""
    elif node.type in {"elseif_statement", "else_statement"}:
        yield node, "branch dropped", node.start, end, ""
    elif node.type == "variable_declaration":
        yield from _forgotten_value(node)
    elif node.type == "unary_expression" and node.children[0].type == "not":
        yield node, "not dropped", node.start, node.inner[0].start, ""
    else:
        yield from _swaps(node)
    for child in node.children:
        yield from _changes(child, node)


def _swaps(node: Node) -> Iterator[_Change]:
    """One word for another."""
    word, others = node, list[str]()
    if node.type == "binary_expression":
        word = node.children[1]
        others += _OPERATORS.get(word.type, ())
    elif node.type == "number":
        others += _neighbours(node.text)
    elif node.type in {"true", "false", "dot_index_expression"} and node.text in _WORDS:
        others.append(_WORDS[node.text])
    for other in others:
        yield node, f"{word.text} to {other}", word.start, word.start + len(word.text), other


def _forgotten_value(node: Node) -> Iterator[_Change]:
    """`local a = b` becomes `local a`: dropped as a whole it would only be an unknown name."""
    inner = node.inner[0]
    if inner.type == "assignment_statement":
        names, end = inner.inner[0], node.start + len(node.text)
        yield node, "value dropped", names.start + len(names.text), end, ""


def _neighbours(text: str) -> list[str]:
    number = int(text)
    return [str(number + 1)] if number == 0 else [str(number + 1), str(number - 1)]
