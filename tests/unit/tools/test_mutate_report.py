from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.mutate import EXPLANATIONS, all_mutants, chosen, parse
from tools.mutation.memory import Memory
from tools.mutation.mutants import Mutant
from tools.mutation.plan import Plan
from tools.mutation.report import Explanation, Outcome, Report, read_explanations
from tools.mutation.worker import Verdict

ROOT = Path(__file__).parents[3]

ONE = Mutant("flows/ack", 7, "a = 1", "1 to 2", "a = 2")
TWO = Mutant("flows/ack", 9, "b = 1", "dropped", "")
OTHER = Mutant("flows/shared/draw", 4, "c = 1", "1 to 0", "c = 0")
EVERY = (ONE, TWO, OTHER)
WHY = Explanation("flows/ack", "b = 1", ["dropped"], "b is never read.")


def test_a_survivor_without_a_reason_fails_the_run() -> None:
    report = Report([Outcome(TWO, "")] + [Outcome(ONE, "test_one")] * 99, EVERY, [])
    assert report.rate == 0.99
    assert report.unexplained == [TWO]
    assert not report.good
    assert Report(report.outcomes, EVERY, [WHY]).good


def test_too_many_survivors_fail_the_run_whatever_their_reasons() -> None:
    report = Report([Outcome(ONE, "test_one"), Outcome(TWO, "")], EVERY, [WHY])
    assert report.explained == [(TWO, "b is never read.")]
    assert not report.unexplained
    assert not report.good


def test_an_explanation_of_nothing_is_reported() -> None:
    gone = Explanation("flows/ack", "z = 1", ["dropped"], "There was such a line once.")
    assert Report([], EVERY, [gone]).stale == ["flows/ack.lua: dropped: z = 1: there is no such line or change"]
    assert Report([Outcome(TWO, "test_two")], EVERY, [WHY]).stale == [
        "flows/ack.lua: dropped: b = 1: noticed by test_two"
    ]
    assert Report([], EVERY, [WHY]).stale == []


def test_the_report_has_a_row_for_each_file_and_names_survivors() -> None:
    lines = Report([Outcome(OTHER, "test"), Outcome(TWO, ""), Outcome(ONE, "test")], EVERY, []).lines()
    assert [line.split() for line in lines[1:4]] == [
        ["flows/ack", "2", "1", "1", "50.0%"],
        ["flows/shared/draw", "1", "1", "0", "100.0%"],
        ["all", "3", "2", "1", "66.7%"],
    ]
    assert "  flows/ack.lua:9: dropped: b = 1" in lines


def test_the_report_for_programs_says_the_same() -> None:
    found = json.loads(Report([Outcome(ONE, "test"), Outcome(TWO, "")], EVERY, []).json())
    assert (found["mutants"], found["killed"], found["rate"]) == (2, 1, 0.5)
    assert found["survivors"] == [{"file": "flows/ack", "line": 9, "change": "dropped", "source": "b = 1"}]


def test_explanations_are_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "mutants.toml"
    file.write_text(
        '[[survivor]]\nfile = "flows/ack"\nsource = "b = 1"\nchanges = ["dropped"]\nwhy = "b is never read."\n',
        encoding="utf-8",
    )
    assert read_explanations(file) == [WHY]
    assert read_explanations(tmp_path / "none.toml") == []


def test_every_explained_survivor_is_a_line_of_its_file_and_a_change_to_it() -> None:
    explanations = read_explanations(EXPLANATIONS)
    assert explanations
    assert Report([], all_mutants(), explanations).stale == []


def test_what_was_found_out_holds_while_nothing_changes(tmp_path: Path) -> None:
    lua = tmp_path / "src" / "lingua_scheduler" / "flows" / "ack.lua"
    lua.parent.mkdir(parents=True)
    lua.write_text("a = 1\nb = 1\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").touch()
    memory = Memory(tmp_path)
    memory.note(ONE, "quick", "test_one", "it failed")
    memory.note(TWO, "quick", "", "")
    memory.save()

    memory = Memory(tmp_path)
    assert [known and known.by for known in (memory.verdict(ONE, "quick"), memory.verdict(TWO, "quick"))] == [
        "test_one",
        "",
    ]
    assert memory.verdict(ONE, "all"), "who noticed it will notice it again"
    assert not memory.verdict(TWO, "all"), "others may notice it"
    assert not memory.verdict(OTHER, "quick")

    lua.write_text("a = 1\nb = 1\nc = 1\n", encoding="utf-8")
    memory = Memory(tmp_path)
    assert not memory.verdict(ONE, "quick")
    assert memory.hints(ONE)[0] == "test_one"
    assert "test_one" in memory.hints(TWO), "it noticed something in the same file"
    assert memory.hints(OTHER) == []


def plan() -> Plan:
    tests = {
        "tests/flows/test_ack.py::test_slow": (["ack", "cell"], 2.0),
        "tests/flows/test_ack.py::test_quick": (["ack", "cell"], 1.0),
        "tests/flows/test_done.py::test_done": (["ack", "done"], 0.5),
        "tests/flows/test_relay.py::test_relay": (["relay"], 0.1),
        "tests/property/test_search.py::test_all": ([], 9.0),
    }
    calls = {test: called for test, (called, _) in tests.items()}
    return Plan(ROOT, Verdict(calls=calls, seconds={test: seconds for test, (_, seconds) in tests.items()}))


def test_a_mutants_own_tests_are_asked_first_and_the_searches_last() -> None:
    assert plan().tests_for(ONE) == [
        "tests/flows/test_ack.py::test_quick",
        "tests/flows/test_ack.py::test_slow",
        "tests/flows/test_done.py::test_done",
        "tests/property/test_search.py::test_all",
    ]


def test_who_noticed_it_once_is_asked_before_all() -> None:
    first = "tests/property/test_search.py::test_all"
    second = "tests/flows/test_done.py::test_done"
    assert plan().tests_for(ONE, [first, second, first])[:2] == [first, second]
    assert plan().tests_for(ONE, ["tests/flows/test_gone.py::test_gone"]) == plan().tests_for(ONE)


def test_a_mutant_of_a_shared_file_concerns_all_that_include_it() -> None:
    shared = Mutant("flows/shared/clock", 3, "a", "dropped", "")
    assert "tests/flows/test_relay.py::test_relay" in plan().tests_for(shared)
    assert len(plan().tests_for(shared)) == 5


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        (["--only", "flows/ack"], {"flows/ack"}),
        (["--only", "ack.lua"], {"flows/ack"}),
        (["--only", "shared/draw", "--only", "ack"], {"flows/ack", "flows/shared/draw"}),
        (["--only", "shared"], {"flows/shared/draw"}),
        ([], {"flows/ack", "flows/shared/draw"}),
    ],
)
def test_only_names_files_and_folders(arguments: list[str], paths: set[str]) -> None:
    assert {mutant.path for mutant in chosen(EVERY, parse(arguments))} == paths


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    every = all_mutants()
    one, two, three = (chosen(every, parse(["--sample", "20", "--seed", seed])) for seed in "778")
    assert one == two != three
    assert len(one) == 20


def test_every_mutant_has_a_name_of_its_own() -> None:
    every = all_mutants()
    assert len(every) > 1000
    assert len({mutant.key for mutant in every}) == len(every)
