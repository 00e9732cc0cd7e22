from __future__ import annotations

from pathlib import Path

import pytest

from tools.lualint.tree import parses
from tools.mutation.mutants import Mutant, mutants

FLOWS = Path(__file__).parents[3] / "src" / "lingua_scheduler" / "flows"


def changes(text: str) -> dict[str, str]:
    return {mutant.change: mutant.text for mutant in mutants("flows/some", text)}


@pytest.mark.parametrize(
    ("text", "change", "broken"),
    [
        ("f(x)\ng(y)", "dropped", "\ng(y)"),
        ("x = f()\n", "dropped", "\n"),
        ("if a then\n  f()\nend\n", "dropped", "\n"),
        ("for _, a in ipairs(b) do\n  f(a)\nend\n", "dropped", "\n"),
        ("while a do\n  f()\nend\n", "dropped", "\n"),
        ("if a then\n  return b\nend\n", "dropped #1", ""),
        ("local a, b = c, {}\n", "value dropped", "local a, b\n"),
        ("if a then\n  f()\nelse\n  g()\nend\n", "branch dropped", "if a then\n  f()\n\nend\n"),
        ("if a then\n  f()\nelseif b then\n  g()\nend\n", "branch dropped", "if a then\n  f()\n\nend\n"),
        ("a = b == c", "== to ~=", "a = b ~= c"),
        ("a = b ~= c", "~= to ==", "a = b == c"),
        ("a = b < c", "< to <=", "a = b <= c"),
        ("a = b < c", "< to >=", "a = b >= c"),
        ("a = b <= c", "<= to <", "a = b < c"),
        ("a = b > c", "> to >=", "a = b >= c"),
        ("a = b > c", "> to <=", "a = b <= c"),
        ("a = b >= c", ">= to >", "a = b > c"),
        ("a = b >= c", ">= to <", "a = b < c"),
        ("a = b and c", "and to or", "a = b or c"),
        ("a = b or c", "or to and", "a = b and c"),
        ("a = not b", "not dropped", "a = b"),
        ("a = 5", "5 to 6", "a = 6"),
        ("a = 5", "5 to 4", "a = 4"),
        ("a = 0", "0 to 1", "a = 1"),
        ("a = b + 1", "1 to 2", "a = b + 2"),
        ("a = b + 1", "1 to 0", "a = b + 0"),
        ("a = b + c", "+ to -", "a = b - c"),
        ("a = b - c", "- to +", "a = b + c"),
        ("a = true", "true to false", "a = false"),
        ("a = false", "false to true", "a = true"),
        ("a = math.min(b, c)", "math.min to math.max", "a = math.max(b, c)"),
        ("a = math.max(b, c)", "math.max to math.min", "a = math.min(b, c)"),
    ],
)
def test_each_change_makes_one_mistake(text: str, change: str, broken: str) -> None:
    change = change.removesuffix(" #1")
    found = [mutant.text for mutant in mutants("flows/some", text) if mutant.change == change]
    assert (broken in found) if broken else found


def test_what_is_no_statement_is_not_dropped() -> None:
    assert changes("local a\n") == {}
    assert changes("local function f(a)\n  g(a)\nend\n").keys() == {"dropped"}


def test_neither_comments_nor_the_first_line_are_touched() -> None:
    assert changes("#!lua flags=allow-oom\n--[[ if a == 1 ]]\n-- include: clock\n") == {}


def test_zero_has_no_lower_neighbour() -> None:
    assert changes("a = 0").keys() == {"dropped", "0 to 1"}


def test_equal_changes_of_equal_lines_are_told_apart() -> None:
    found = mutants("flows/some", "if a then\n  f(1)\nend\nif b then\n  f(1)\nend\n")
    assert [(mutant.line, mutant.change) for mutant in found if mutant.change.startswith("1 to 2")] == [
        (2, "1 to 2"),
        (5, "1 to 2 #2"),
    ]
    assert len({mutant.key for mutant in found}) == len(found)


def test_a_mutant_is_named_by_its_text_and_not_by_its_line() -> None:
    (above,) = (each for each in mutants("flows/some", "a = b == c") if each.change == "== to ~=")
    (below,) = (each for each in mutants("flows/some", "\n\n  a = b == c") if each.change == "== to ~=")
    assert above.key == below.key == ("flows/some", "a = b == c", "== to ~=")
    assert (above.line, below.line) == (1, 3)


def test_every_mutant_of_a_real_flow_is_lua() -> None:
    text = (FLOWS / "ack.lua").read_text(encoding="utf-8")
    found = mutants("flows/ack", text)
    assert len(found) > 20
    assert all(mutant.text != text for mutant in found)
    assert all(parses(mutant.text.split("\n", 1)[1]) for mutant in found)
    assert all(mutant.text.startswith("#!lua") for mutant in found)


def test_a_mutant_says_where_it_is() -> None:
    assert str(Mutant("flows/ack", 7, "a = 1", "1 to 2", "a = 2")) == "flows/ack.lua:7: 1 to 2: a = 1"
