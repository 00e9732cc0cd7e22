"""The README in Chinese says what the one in English says: the same parts, commands, links and figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
ENGLISH: Final = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE: Final = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
_BLOCK: Final = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    return _BLOCK.findall(text)


def prose(text: str) -> str:
    return _BLOCK.sub("", text)


def headings(text: str) -> list[int]:
    return [len(found) for found in re.findall(r"^(#+) ", prose(text), re.MULTILINE)]


def links(text: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)]+)\)", prose(text)) if not link.startswith("README")]


def words_of_code(text: str) -> list[str]:
    return sorted(re.findall(r"`[^`\n]+`", prose(text)))


def figures(text: str) -> list[list[str]]:
    """What stands in numbers in each row of each table; thousands are set apart."""
    rows = [line for line in prose(text).splitlines() if line.startswith("|")]
    return [re.findall(r"\d+(?:[ .]\d+)*", re.sub(r"\([^)]*\)|（.*?）", "", row)) for row in rows]


@pytest.mark.parametrize("part", [headings, blocks, links, words_of_code, figures], ids=lambda part: part.__name__)
def test_both_are_in_step(part: object) -> None:
    assert callable(part)
    assert part(CHINESE) == part(ENGLISH)
    assert part(ENGLISH)


def test_each_leads_to_the_other() -> None:
    assert "(README.zh-CN.md)" in ENGLISH.splitlines()[2]
    assert "(README.md)" in CHINESE.splitlines()[2]


def test_every_file_that_is_linked_is_there() -> None:
    assert [link for link in links(ENGLISH) if not link.startswith("http") and not (ROOT / link).exists()] == []
