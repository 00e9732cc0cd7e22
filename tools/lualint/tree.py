"""The syntax tree, copied out of the parser at once.

Lines are counted here: `start_point` of tree-sitter 0.26.0 drops a reference too many, and the process with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tree_sitter_lua
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node as ParserNode

_PARSER: Final = Parser(Language(tree_sitter_lua.language()))


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A piece of syntax: `field` says what it is to its parent, `named` that it is more than punctuation.

    `start` counts characters of the parsed text, and lines begin with 1.
    """

    type: str
    field: str
    text: str
    start: int
    line: int
    named: bool
    missing: bool
    children: tuple[Node, ...]

    @property
    def inner(self) -> list[Node]:
        """The children that are more than punctuation."""
        return [child for child in self.children if child.named]

    def one(self, field: str) -> Node | None:
        """The child in this role."""
        return next(iter(self.all(field)), None)

    def all(self, field: str) -> list[Node]:
        """The children in this role."""
        return [child for child in self.children if child.named and child.field == field]

    def walk(self) -> Iterator[Node]:
        """The node and all below it, in the order of the text."""
        yield self
        for child in self.children:
            yield from child.walk()


def parse(text: str) -> Node:
    """The syntax tree of a text."""
    data = text.encode()
    tree = _PARSER.parse(data)

    def copy(node: ParserNode, field: str) -> Node:
        children = [copy(child, node.field_name_for_child(n) or "") for n, child in enumerate(node.children)]
        return Node(
            node.type,
            field,
            data[node.start_byte : node.end_byte].decode(),
            len(data[: node.start_byte].decode()),
            data.count(b"\n", 0, node.start_byte) + 1,
            node.is_named,
            node.is_missing,
            tuple(children),
        )

    return copy(tree.root_node, "")


def parses(text: str) -> bool:
    """Whether the parser finds nothing wrong with a text."""
    return not _PARSER.parse(text.encode()).root_node.has_error
