"""A Lua file, its syntax tree and what its includes bring in."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tools.lualint.tree import Node, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

INCLUDE: Final = re.compile(r"^(?P<indent>\s*)-- include: (?P<names>.+)$")
TOP_LOCAL: Final = re.compile(r"^local (?:function (?P<function>\w+)|(?P<names>[\w, ]+))", re.MULTILINE)


class Complaint(NamedTuple):
    """One thing to put right."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        try:
            path = self.path.relative_to(Path.cwd())
        except ValueError:
            path = self.path
        return f"{path}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Include:
    """One name of an include line."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file, and its tree in which every include line is a declaration of the names that it brings in."""

    path: Path
    root: Path
    text: str
    tree: Node
    includes: tuple[Include, ...]

    @property
    def name(self) -> str:
        """The name of the file, which is also that of its flow or function."""
        return self.path.stem

    @property
    def shared(self) -> bool:
        """Whether it is brought in by others and not a script of its own."""
        return self.path.parent.name == "shared"

    def complain(self, node: Node | int, text: str) -> Complaint:
        """A complaint about a place in this file."""
        return Complaint(self.path, node.line if isinstance(node, Node) else node, text)

    def syntax_errors(self) -> Iterator[Complaint]:
        """Where it is no Lua 5.1; what Redis cannot read, the parser may."""
        for node in self.tree.walk():
            if node.missing:
                yield self.complain(node, f"syntax error: {node.type!r} is missing")
            elif node.type == "ERROR":
                yield self.complain(node, "syntax error")
            elif node.type in {"goto_statement", "label_statement", "attribute"}:
                yield self.complain(node, f"Lua 5.1 has no {node.type.removesuffix('_statement')}")
            elif node.type in {"//", "&", "|", "<<", ">>"} or (node.type == "~" and not node.named):
                yield self.complain(node, f"Lua 5.1 has no {node.type}")


def read(path: Path, root: Path) -> Source:
    """Read and parse a file; `root` holds `flows/shared`."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    includes: list[Include] = []
    for number, line in enumerate(lines):
        if found := INCLUDE.match(line):
            names = [name.strip() for name in found["names"].split(",")]
            includes += (Include(number + 1, name) for name in names)
            brought = sorted({each for name in names for each in brought_in(root, name)})
            lines[number] = f"{found['indent']}local {', '.join(brought)}" if brought else ""
    return Source(path, root, text, parse("\n".join(lines)), tuple(includes))


@functools.cache
def exports(root: Path, name: str) -> tuple[str, ...]:
    """The names at the left margin of a shared file: its function, and the state that it keeps."""
    path = root / "flows" / "shared" / f"{name}.lua"
    if not path.exists():
        return ()
    found = TOP_LOCAL.finditer(path.read_text(encoding="utf-8"))
    return tuple(part.strip() for one in found for part in (one["function"] or one["names"]).split(",") if part.strip())


def brought_in(root: Path, name: str) -> set[str]:
    """All names that an include brings in, with those of its own includes."""
    names: set[str] = set()
    waiting, seen = [name], set[str]()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        names |= set(exports(root, one))
        path = root / "flows" / "shared" / f"{one}.lua"
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                if found := INCLUDE.match(line):
                    waiting += [each.strip() for each in found["names"].split(",")]
    return names
