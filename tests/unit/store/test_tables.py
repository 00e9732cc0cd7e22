"""What the scripts are told of the records, the states and the causes is what Python knows of them."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
import pytest

from lingua_scheduler.core.attempt_end import CAUSES
from lingua_scheduler.core.job_state import STATES, sources_of
from lingua_scheduler.core.records import (
    CHOICES,
    FORGET_FROM,
    GONE_FROM,
    HEARD_STEP_MS,
    MAX_CLAIMANTS,
    MAX_LEAVING,
    MAX_MARKS,
    MAX_PASSED_OVER,
    MAX_REMEMBERED,
    SUSPECTS,
    Bucket,
    Choice,
    Claim,
    Entry,
    Event,
    GroupRecord,
    Guest,
    Home,
    Intent,
    JobRecord,
    Mark,
    Memory,
    NodeRecord,
    Past,
    PastAttempt,
    Profile,
    Record,
    Standing,
    Ticket,
    Way,
    Wishes,
)
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.tables import SCHEMA, TABLES

#: What is kept in the engine; the rules travel with each call and may change at any time.
KEPT: Final = (
    *("JOB", "PAST", "PAST_ATTEMPT", "CHOICE", "TICKET", "WISHES", "NODE", "PROFILE", "MARK", "GROUP", "EVENT"),
    *(
        "CLAIM",
        "MEMORY",
        "ENTRY",
        "BUCKET",
        "STANDING",
        "DUE",
        "LACK",
        "ROOM",
        "GONE",
        "INTENT",
        "HOME",
        "WAY",
        "GUEST",
    ),
)

#: The number of every layout there has been, with its digest.
LAYOUTS: Final = {
    1: "626476b9bfed2a38",
    2: "5d3c4d18bc11131a",
    3: "c668d527cf0c31e9",
    4: "0561d65dcb516e1f",
    5: "0561d65dcb516e1f",
    6: "f8d65ac60324995c",
    7: "eed6d5f73797ddeb",
    8: "15af7c2afa26e12d",
    9: "a1ad2fce085dbf48",
    10: "7ce1d50bab3531d3",
}


def test_another_layout_of_what_is_kept_has_another_number() -> None:
    layout = [(name, sorted(TABLES[name].items()), TABLES["NEW"].get(name.lower())) for name in KEPT]
    digest = hashlib.sha256(msgspec.json.encode(layout)).hexdigest()[:16]
    assert LAYOUTS.get(SCHEMA) == digest, (
        f"what is kept in the engine has another layout than schema {SCHEMA}: cells that exist could not be read. "
        f'Give SCHEMA in store/tables.py the next number, and add it to LAYOUTS here with "{digest}".'
    )
    assert max(LAYOUTS) == SCHEMA


def test_every_record_that_is_kept_is_part_of_the_layout() -> None:
    assert {*KEPT, "RULE"} >= {name for name, table in TABLES.items() if "header" in table}


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("JOB", JobRecord),
        ("PAST", Past),
        ("PAST_ATTEMPT", PastAttempt),
        ("TICKET", Ticket),
        ("WISHES", Wishes),
        ("NODE", NodeRecord),
        ("INTENT", Intent),
        ("HOME", Home),
        ("WAY", Way),
        ("GUEST", Guest),
        ("PROFILE", Profile),
        ("MARK", Mark),
        ("GROUP", GroupRecord),
        ("EVENT", Event),
        ("CLAIM", Claim),
        ("MEMORY", Memory),
        ("ENTRY", Entry),
        ("BUCKET", Bucket),
        ("RULE", Rules),
    ],
)
def test_a_field_has_the_same_place_in_python_and_in_lua(name: str, record: type[Record]) -> None:
    """Lua counts from 1."""
    places = {field.name: str(place + 1) for place, field in enumerate(msgspec.structs.fields(record))}
    assert TABLES[name] == places | {"header": TABLES[name]["header"]}


def test_lua_knows_where_the_first_field_of_a_record_begins() -> None:
    blank = [0 if field.type is int else "" for field in msgspec.structs.fields(NodeRecord)]
    node = msgspec.convert(blank, NodeRecord)
    group = GroupRecord("", False, [], [])
    for name, record in (("NODE", node), ("GROUP", group)):
        fields = b"".join(map(msgspec.msgpack.encode, msgspec.structs.astuple(record)))
        assert msgspec.msgpack.encode(record)[int(TABLES[name]["header"]) :] == fields


def test_the_scripts_know_every_standing() -> None:
    assert TABLES["STANDING"] == {standing.name: str(standing.value) for standing in Standing} | {
        "count": "16",
        "last": "8",
        "names": '({"available","suspect","full","suspect_full","resting","not_ready","draining","stale","lost"})',
    }


def test_the_scripts_know_the_numbers_that_they_share_with_python() -> None:
    assert TABLES["DUE"] == {"forget": str(FORGET_FROM), "gone": str(GONE_FROM)}
    assert TABLES["MADE_ROOM"] == {"most": str(MAX_LEAVING), "passed_over": str(MAX_PASSED_OVER)}
    assert TABLES["HEARD"] == {"step_ms": str(HEARD_STEP_MS)}
    assert TABLES["CLAIMANTS"] == {"most": str(MAX_CLAIMANTS)}
    assert TABLES["MARKS"] == {"most": str(MAX_MARKS)}
    assert TABLES["REMEMBERED"] == {"most": str(MAX_REMEMBERED)}
    assert TABLES["ROOM"] == {"suspect": str(SUSPECTS)}
    assert TABLES["CHOICE"] == {"count": str(CHOICES), "group": str(CHOICES * SUSPECTS)}


def test_a_choice_reads_as_it_was_written() -> None:
    choice = Choice(group=7, candidates=1_000, policy=3, reasons=["waited"])
    assert Choice.of(choice.packed(), ["waited"]) == choice
    assert Choice(2**26, SUSPECTS - 1, CHOICES - 1).packed() < 2**53


def test_the_scripts_are_composed_with_the_table_of_moves() -> None:
    for state in STATES:
        lua = "({" + ",".join(f"{source}=true" for source in sources_of(state)) + "})"
        assert TABLES["SOURCES"][state] == lua


def test_every_way_to_end_an_attempt_is_known_to_the_scripts_by_its_name() -> None:
    assert set(TABLES["CAUSE"]) == {cause.name for cause in CAUSES} | {"named"}
    for cause in CAUSES:
        lua = TABLES["CAUSE"][cause.name]
        assert f"{cause.name}={lua}" in TABLES["CAUSE"]["named"]
        assert f'name="{cause.name}"' in lua
        assert f"limbo={str(cause.lease == 'limbo').lower()}" in lua
        assert f"costs_try={str(cause.costs_try).lower()}" in lua
        assert f"blames={str(cause.blames).lower()}" in lua
        assert ("counts=" in lua) == bool(cause.counts)
        if cause.counts:
            assert f"counts={Past.__struct_fields__.index(cause.counts) + 1}}}" in lua
