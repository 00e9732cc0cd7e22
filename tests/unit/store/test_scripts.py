from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest

from lingua_scheduler.store.keys import CELL_KEY_NAMES, OUTSIDE_KEY_NAMES, cell_key
from lingua_scheduler.store.scripts import MOST, ORDER, Script, compose, read_packaged, script
from lingua_scheduler.store.tables import TABLES


def composed(main: str, **shared: str) -> Script:
    """`flows/main` from these texts."""
    texts = {"flows/main": main} | {f"flows/shared/{name}": text for name, text in shared.items()}
    return compose("flows/main", texts.__getitem__)


def body(main: str, **shared: str) -> str:
    return composed("#!lua\n" + main, **shared).source.removeprefix("#!lua\n")


def test_a_script_begins_with_its_flags() -> None:
    assert composed("#!lua flags=allow-oom\nreturn 1").source == "#!lua flags=allow-oom\nreturn 1\n"
    with pytest.raises(ValueError, match=r"flows/main.lua must begin with #!lua and its flags"):
        composed("return 1\n")


def test_comments_and_empty_lines_are_left_behind() -> None:
    text = "--[[ one\n  two -- three ]]\n\nlocal a = 1 -- why\n  -- alone\nreturn a -- [[ not a block\n"
    assert body(text) == "local a = 1\nreturn a\n"


def test_minus_signs_are_no_comment() -> None:
    assert body("return 1-1 - -1\n") == "return 1-1 - -1\n"


def test_an_include_brings_in_a_file_at_its_place() -> None:
    assert body("local x\n-- include: one\nreturn one()", one="-- Why.\nlocal function one() end") == (
        "local x\nlocal function one() end\nreturn one()\n"
    )


def test_several_includes_of_one_line_come_in_their_order() -> None:
    assert body("-- include: two, one\nreturn 1", one="ONE()", two="TWO()") == "TWO()\nONE()\nreturn 1\n"


def test_what_is_included_twice_comes_once() -> None:
    assert body("-- include: one\n-- include: one, two\nreturn 1", one="a()", two="-- include: one\nb()") == (
        "a()\nb()\nreturn 1\n"
    )


def test_includes_of_includes_come_before_them() -> None:
    text = body("-- include: top\nreturn 1", top="-- include: middle\ntop()", middle="-- include: low\nm()", low="l()")
    assert text == "l()\nm()\ntop()\nreturn 1\n"


def test_an_include_inside_a_block_is_for_that_block_alone() -> None:
    """A rare branch costs the usual call nothing, and the next block needs its own."""
    text = "-- include: one\nif a then\n  -- include: one, two\n  two()\nend\nif b then\n  -- include: two\nend"
    assert body(text, one="o()", two="-- include: one\nt()") == (
        "o()\nif a then\n  t()\n  two()\nend\nif b then\n  t()\nend\n"
    )


def test_a_block_s_includes_do_not_count_for_the_margin() -> None:
    text = "if a then\n  -- include: one\nend\n-- include: one"
    assert body(text, one="o()") == "if a then\n  o()\nend\no()\n"


def test_includes_of_an_include_inside_a_block_are_indented_with_it() -> None:
    text = "if a then\n  -- include: two\nend"
    assert body(text, one="o()", two="-- include: one\nif b then\n  t()\nend") == (
        "if a then\n  o()\n  if b then\n    t()\n  end\nend\n"
    )


def test_an_include_inside_an_include_s_block_stays_there() -> None:
    text = "-- include: two\n-- include: one\nend"
    assert body(text, one="o()", two="if b then\n  -- include: one\nend") == "if b then\n  o()\nend\no()\nend\n"


def test_an_include_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        body("-- include: nothing\nreturn 1")


def test_names_that_python_shares_are_written_out() -> None:
    assert body("return job[JOB.state], STANDING.count, SOURCES.ACCEPTED[s]") == (
        f"return job[{TABLES['JOB']['state']}], 16, {TABLES['SOURCES']['ACCEPTED']}[s]\n"
    )


def test_keys_are_declared_in_the_order_of_their_use() -> None:
    made = composed("#!lua\n-- include: one\nreturn KEY.jobs, KEY.due, KEY.nodes", one="x(KEY.due, KEY.due)")
    assert made.keys == ("due", "jobs", "nodes")
    assert made.source == "#!lua\nx(KEYS[1], KEYS[1])\nreturn KEYS[2], KEYS[1], KEYS[3]\n"


def test_a_name_inside_a_comment_declares_nothing() -> None:
    assert composed("#!lua\n-- KEY.jobs\n--[[ KEY.due ]]\nreturn 1").keys == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("return KEY.rooms", "flows/main.lua: there is no key 'rooms'"),
        ("return JBO.state", "flows/main.lua: there is no table 'JBO'"),
        ("return JOB.stat", "flows/main.lua: JOB has no 'stat'"),
        ("return STANDING.gone", "flows/main.lua: STANDING has no 'gone'"),
    ],
)
def test_a_name_that_no_table_knows_is_an_error_at_composition(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        body(text)


def test_a_script_is_known_by_the_sha_of_its_source() -> None:
    made = composed("#!lua\nreturn 1")
    assert made.sha == hashlib.sha1(made.source.encode(), usedforsecurity=False).hexdigest()
    assert made.sha != composed("#!lua\nreturn 2").sha
    assert made.sha == composed("#!lua\n-- Another why.\nreturn 1").sha


def test_the_calls_of_a_tick_go_out_in_the_order_of_a_job_s_life() -> None:
    ranks = {name: compose(f"flows/{name}", lambda _: "#!lua\nreturn 1").rank for name in (*ORDER, "reap", "relay")}
    assert ranks == {name: rank for rank, name in enumerate(ORDER)} | {"reap": -1, "relay": -1}
    assert ORDER[0] == "deliver"
    assert ORDER[-2:] == ("dispatch", "cancel")
    assert ORDER.index("ack") < ORDER.index("started") < ORDER.index("done")
    for last_word in ("heartbeat", "register", "disconnect", "leave", "evict", "cancel", "release"):
        assert ORDER.index("done") < ORDER.index("fail") < ORDER.index(last_word)


def test_an_error_is_told_with_the_line_it_happened_in() -> None:
    made = composed("#!lua\nlocal a = 1\n\n  return a + nil")
    assert made.line(1) == "#!lua"
    assert made.line(3) == "return a + nil"
    assert (made.line(0), made.line(4), made.line(-1)) == ("", "", "")


PACKAGED = [
    f"{folder}/{path.name.removesuffix('.lua')}"
    for folder in ("flows", "views")
    for path in sorted((files("lingua_scheduler") / folder).iterdir(), key=lambda path: path.name)
    if path.name.endswith(".lua")
]


@pytest.mark.parametrize("path", PACKAGED)
def test_every_script_of_this_release_can_be_composed(path: str) -> None:
    made = script(path)
    assert made is script(path)
    assert made.name == path.split("/")[1]
    assert made.keys
    assert set(made.keys) <= set(CELL_KEY_NAMES) or set(made.keys) <= set(OUTSIDE_KEY_NAMES)
    assert "include:" not in made.source


@pytest.mark.parametrize("path", PACKAGED)
def test_a_reader_says_that_it_does_not_write(path: str) -> None:
    first = read_packaged(path).splitlines()[0]
    assert (first == "#!lua flags=no-writes") == path.startswith("views/")


def test_only_what_takes_on_new_work_is_refused_when_memory_is_short() -> None:
    """Everything that frees, relays or ends runs under memory pressure too."""
    strict = {path for path in PACKAGED if read_packaged(path).splitlines()[0] == "#!lua"}
    assert strict == {
        *("flows/admit", "flows/claim", "flows/dispatch", "flows/enter_session", "flows/note", "flows/pair"),
        *("flows/keep_heard", "flows/offer_seat", "flows/store_audio", "flows/take_seat"),
    }


def test_all_keys_of_a_cell_share_its_tag() -> None:
    assert cell_key("lingua:v1", "c0", "jobs") == "lingua:v1:{c0}:jobs"
    assert len(set(CELL_KEY_NAMES)) == len(CELL_KEY_NAMES)


@pytest.mark.parametrize("path", PACKAGED)
def test_the_contract_of_a_script_names_the_keys_that_it_is_composed_with(path: str) -> None:
    header = read_packaged(path).split("]]", 1)[0]
    named = header.split("  KEYS  ", 1)[-1].split("  ARGV  ", 1)[0]
    wanted = [key for key in (*CELL_KEY_NAMES, *OUTSIDE_KEY_NAMES) if key in script(path).keys]
    assert [word for word in named.split() if word != "·"] == wanted, f"KEYS  {' · '.join(wanted)}"


def test_flows_that_may_have_much_to_do_for_one_item_are_folded_by_eight() -> None:
    assert {name: script(f"flows/{name}").most for name in MOST.keys() - {"jobs"}} == dict.fromkeys(
        (
            "register",
            "heartbeat",
            "disconnect",
            "leave",
            "evict",
            "mark",
            "reap",
            "assign_home",
            "enter_homes",
            "route",
        ),
        8,
    )
    assert min(script(f"flows/{name}").most for name in ("ack", "done", "dispatch", "deliver")) > 64


def test_a_run_along_the_jobs_is_folded_with_no_other() -> None:
    assert script("views/jobs").most == 1
