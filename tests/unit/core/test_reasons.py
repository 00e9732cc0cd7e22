"""The words in which it is said why a node does not take a job: one list, and the Lua knows no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import lingua_scheduler
from lingua_scheduler.core.reasons import AGAINST, SPECIAL, WISHES
from lingua_scheduler.core.records import Standing
from lingua_scheduler.core.refusal import Breakdown
from tools.docs import reasons
from tools.lualint.tree import parse

SOURCES: Final = Path(lingua_scheduler.__file__).parent

AGAINST_A_NODE: Final = {reason.word for reason in AGAINST}
WORDS: Final = AGAINST_A_NODE | {*WISHES, *SPECIAL}
#: Words that the Lua says only when it means a reason: an event or a list has none of these names.
TELLING: Final = WORDS - Standing.__members__.keys() | {"suspect"}

#: The names of a label, of counters and of an event.
OTHERS: Final = {"group", "accepted", "pool_empty", "reserved"}

#: Who says which of them, beside the standings, which are generated.
SPEAKERS: Final[dict[str, set[str]]] = {
    "flows/dispatch": {"preferred"},
    "flows/lodge": {"waited", "guest"},
    "flows/shared/against": {"no_pool", "no_service", "fallback", "not_permitted", "marked"},
    "flows/shared/choose_wished": {"bound", "preferred", "seen", "suspect", "last node", "pool full"},
    "flows/shared/could_take": {"unknown", "excluded", "marked"},
    "flows/shared/pick_doubted": {"suspect", "panic"},
    "flows/shared/place": {"waited"},
    "flows/shared/remarks_on": {"fell back", "again"},
    "flows/shared/serve_woken": {"waited", "suspect"},
    "views/explain": {"excluded", "had", "not_named"},
}


def said_in(path: Path) -> set[str]:
    """The plain words in a Lua file: text in lower case, which is no command, no key and no pattern."""
    found = [node.text[1:-1].strip() for node in parse(path.read_text()).walk() if node.type == "string"]
    return {text for text in found if re.fullmatch(r"[a-z_]{2,}( [a-z]+)?", text)}


def test_the_lua_says_these_words_and_no_others() -> None:
    said = {str(path.relative_to(SOURCES).with_suffix("")): said_in(path) for path in SOURCES.rglob("*.lua")}
    speakers = {name: words - OTHERS for name, words in said.items() if words & TELLING}
    assert speakers == SPEAKERS
    assert set().union(*speakers.values()) == TELLING


def test_every_standing_in_which_a_node_cannot_be_taken_is_a_reason() -> None:
    closed = {standing.name for standing in Standing if standing > Standing.suspect}
    assert AGAINST_A_NODE & Standing.__members__.keys() == closed


def test_every_number_of_a_refusal_has_its_reasons_and_no_reason_another() -> None:
    assert {reason.counted for reason in AGAINST if reason.counted} == {*Breakdown.__struct_fields__} - {"pool"}


def test_no_word_has_two_meanings() -> None:
    assert len(WORDS) == len(AGAINST) + len(WISHES) + len(SPECIAL)


def test_every_word_is_described() -> None:
    page = reasons()
    for word in WORDS:
        assert f"| `{word}` |" in page
