"""How a file looks: lines, headers, and one function for each shared file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.lualint.source import Complaint, Source

MAX_LINE: Final = 120
FLAGS: Final = frozenset({"allow-oom", "no-writes", "allow-stale", "no-cluster", "allow-cross-slot-keys"})

_HEADER: Final = re.compile(r"--\[\[ (?P<name>\w+): .*?\]\]", re.DOTALL)


def check_layout(source: Source) -> Iterator[Complaint]:
    """Everything that can be said without knowing a single name."""
    yield from _lines(source)
    yield from _shared_file(source) if source.shared else _script(source)


def _lines(source: Source) -> Iterator[Complaint]:
    in_comment = False
    for number, line in enumerate(source.text.split("\n"), start=1):
        if "\t" in line:
            yield source.complain(number, "a tab")
        if line != line.rstrip():
            yield source.complain(number, "white space at the end of the line")
        if len(line) > MAX_LINE:
            yield source.complain(number, f"{len(line)} characters, more than {MAX_LINE}")
        if not in_comment and (len(line) - len(line.lstrip(" "))) % 2:
            yield source.complain(number, "indent by two spaces")
        in_comment = "]]" not in line if in_comment else "--[[" in line and "]]" not in line
    if not source.text.endswith("\n") or source.text.endswith("\n\n"):
        yield source.complain(len(source.text.splitlines()), "end with one newline")


def _script(source: Source) -> Iterator[Complaint]:
    first, _, rest = source.text.partition("\n")
    if not first.startswith("#!lua"):
        yield source.complain(1, "begin with #!lua and its flags")
    flags = set(first.removeprefix("#!lua").strip().removeprefix("flags=").split(",")) - {""}
    if first.startswith("#!lua") and not flags <= FLAGS:
        yield source.complain(1, f"the engine knows no flag {min(flags - FLAGS)!r}")
    if source.path.parent.name == "views" and "no-writes" not in flags:
        yield source.complain(1, "a view needs flags=no-writes")
    header = _HEADER.match(rest)
    if not header:
        yield source.complain(2, f"say the contract after the first line: --[[ {source.name}: … ]]")
        return
    if header["name"] != source.name:
        yield source.complain(2, f"the contract is of {header['name']}, the file of {source.name}")
    for word in ("ARGV", "OUT"):
        if not re.search(rf"^ +{word} ", header[0], re.MULTILINE):
            yield source.complain(2, f"the contract has no line {word}")


def _shared_file(source: Source) -> Iterator[Complaint]:
    if not source.text.startswith("-- "):
        yield source.complain(1, "begin with a comment that says what the function is for")
    functions: list[str] = []
    for node in source.tree.inner:
        if node.type == "function_declaration" and node.text.startswith("local"):
            functions += [name.text for name in node.all("name")]
        elif node.type not in {"comment", "variable_declaration"}:
            yield source.complain(node, "a shared file holds its function and its state, nothing that runs")
    if functions != [source.name]:
        found = " and ".join(functions) or "none"
        yield source.complain(1, f"a shared file defines one local function, {source.name}; this one: {found}")
