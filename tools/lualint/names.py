"""Names: what is global, what is local, what is read, what hides what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lingua_scheduler.store.tables import TABLES
from tools.lualint.source import exports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.lualint.source import Complaint, Source
    from tools.lualint.tree import Node
    #: What the engine gives to a script. `print`, `os`, `io` and `math.random` are missing on purpose.
ENGINE_GLOBALS: Final = frozenset(
    {"redis", "server", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV", "string", "table", "math"}
    | {
        "tonumber",
        "tostring",
        "type",
        "pairs",
        "ipairs",
        "next",
        "unpack",
        "select",
        "error",
        "pcall",
        "assert",
    }
    | {"setmetatable", "getmetatable", "rawget", "rawset", "rawequal"}
)
#: What the composer writes out as literals.
COMPOSER_TABLES: Final = frozenset({*TABLES, "KEY"})

#: ARGV is taken apart at the top, where the contract still is in sight.
TOP_LINES: Final = 15


@dataclass(slots=True)
class _Local:
    line: int
    kind: str
    read: bool = False


class _Reader:
    """Walks a tree with the scopes that are open, as Lua would."""

    def __init__(self, source: Source, allowed: frozenset[str]) -> None:
        self.source = source
        self.allowed = allowed
        self.complaints: list[Complaint] = []
        self.scopes: list[dict[str, _Local]] = []
        self.functions = 0
        self.include_lines = {include.line for include in source.includes}

    def complain(self, node: Node | int, text: str) -> None:
        self.complaints.append(self.source.complain(node, text))

    # Scopes

    def open(self) -> None:
        self.scopes.append({})

    def close(self) -> None:
        for name, local in self.scopes.pop().items():
            if not local.read and name != "_" and local.kind not in {"include", "export"}:
                self.complain(local.line, f"{local.kind} {name} is never read")

    def find(self, name: str) -> _Local | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def declare(self, node: Node, kind: str) -> None:
        name, line = node.text, node.line
        if line in self.include_lines:
            kind = "include"
        elif len(self.scopes) == 1 and self.source.shared:
            kind = "export"
        hidden = self.find(name)
        if kind == "include" and hidden and hidden.kind == "include":
            return
        if hidden and name != "_":
            self.complain(line, f"{name} hides the one of line {hidden.line}")
        elif name in ENGINE_GLOBALS | COMPOSER_TABLES:
            self.complain(line, f"{name} hides a global")
        self.scopes[-1][name] = _Local(line, kind)

    # The tree

    def each(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.visit(node)

    def block(self, nodes: Iterable[Node]) -> None:
        self.open()
        self.each(nodes)
        self.close()

    def visit(self, node: Node) -> None:
        handler = getattr(self, f"on_{node.type}", None)
        if handler:
            handler(node)
        else:
            self.each(node.inner)

    def on_chunk(self, node: Node) -> None:
        self.block(node.inner)

    def on_block(self, node: Node) -> None:
        self.block(node.inner)

    def on_identifier(self, node: Node) -> None:
        name = node.text
        if local := self.find(name):
            local.read = True
        elif name not in self.allowed:
            self.complain(node, f"no local and no global is called {name}")

    def on_variable_declaration(self, node: Node) -> None:
        inner = node.inner[0]
        targets = inner if inner.type == "variable_list" else inner.inner[0]
        if inner is not targets:
            self.each(inner.inner[1:])
        for name in targets.all("name"):
            self.declare(name, "local")

    def on_assignment_statement(self, node: Node) -> None:
        targets, *values = node.inner
        self.each(values)
        for target in targets.inner:
            if target.type != "identifier":
                self.visit(target)
            elif not self.find(target.text):
                self.complain(target, f"{target.text} would be a global")

    def on_function_declaration(self, node: Node) -> None:
        name = node.one("name")
        if name is not None and name.type == "identifier":
            if node.text.startswith("local"):
                self.declare(name, "function")
            elif not self.find(name.text):
                self.complain(name, f"{name.text} would be a global")
        elif name is not None:
            self.visit(name)
        self.on_function_definition(node)

    def on_function_definition(self, node: Node) -> None:
        self.functions += 1
        self.open()
        parameters, body = node.one("parameters"), node.one("body")
        for name in parameters.all("name") if parameters else ():
            self.declare(name, "parameter")
        if body:
            self.each(body.inner)
        self.close()
        self.functions -= 1

    def on_for_statement(self, node: Node) -> None:
        clause, body = node.one("clause"), node.one("body")
        if clause is None:
            return
        names = clause.all("name")
        if clause.type == "for_generic_clause":
            names = clause.inner[0].all("name")
            self.each(clause.inner[1:])
        else:
            self.each(child for child in clause.inner if child not in names)
        self.open()
        for name in names:
            self.declare(name, "loop variable")
        if body:
            self.each(body.inner)
        self.close()

    def on_repeat_statement(self, node: Node) -> None:
        # The condition still sees the locals of the body.
        self.open()
        body, condition = node.one("body"), node.one("condition")
        self.each(body.inner if body else ())
        if condition:
            self.visit(condition)
        self.close()

    def on_dot_index_expression(self, node: Node) -> None:
        self.visit(node.inner[0])

    on_method_index_expression = on_dot_index_expression

    def on_field(self, node: Node) -> None:
        is_name = node.one("name") is not None and node.children[0].type != "["
        self.each(node.inner[1:] if is_name else node.inner)

    def on_bracket_index_expression(self, node: Node) -> None:
        table, index = node.inner
        if table.text == "KEYS":
            self.complain(node, "write KEY.name: the composer declares it")
        late = self.functions or _lines_of_code(self.source.text, node.line) > TOP_LINES
        if table.text == "ARGV" and index.type == "number" and late:
            self.complain(node, f"name {node.text} at the top of the script")
        self.each(node.inner)


def _lines_of_code(text: str, last: int) -> int:
    """How many lines up to `last` hold code: not the header, not comments."""
    lines = text.split("\n")[:last]
    header = next((number for number, line in enumerate(lines) if "]]" in line), -1)
    return sum(1 for line in lines[header + 1 :] if line.strip() and not line.lstrip().startswith("--"))


def check_names(source: Source) -> Iterator[Complaint]:
    """Every complaint about a name."""
    reader = _Reader(source, ENGINE_GLOBALS | COMPOSER_TABLES)
    reader.visit(source.tree)
    yield from reader.complaints
    yield from _includes(source)


def unknown_globals(source: Source) -> Iterator[Complaint]:
    """Only the names that nobody defines; for composed text, in which the rest was judged already."""
    reader = _Reader(source, ENGINE_GLOBALS)
    reader.visit(source.tree)
    yield from (one for one in reader.complaints if "is called" in one.text or "would be a global" in one.text)


def _includes(source: Source) -> Iterator[Complaint]:
    used = _identifiers(source.tree, {include.line for include in source.includes})
    seen: set[str] = set()
    for include in source.includes:
        own = exports(source.root, include.name)
        if not own:
            yield source.complain(include.line, f"there is no flows/shared/{include.name}.lua")
        elif include.name in seen:
            yield source.complain(include.line, f"{include.name} is included twice")
        elif not used & set(own):
            yield source.complain(include.line, f"include {include.name} is not used")
        seen.add(include.name)


def _identifiers(node: Node, except_lines: set[int]) -> set[str]:
    if node.type == "identifier":
        return {node.text} if node.line not in except_lines else set()
    return {name for child in node.inner for name in _identifiers(child, except_lines)}
