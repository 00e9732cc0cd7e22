"""Which keys are the original scheduler's: those that its documents name, and never one of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import (
    CELL_KEY_NAMES,
    DEAD_LETTERS,
    DIRECTORY,
    FEED,
    OUTSIDE_KEY_NAMES,
    TAG_KINDS,
    audio_tag,
    cell_key,
    instance_tag,
    pairing_tag,
    rate_tag,
    request_tag,
    seat_tag,
    session_tag,
)
from lingua_scheduler.store.relics import KINDS, kind_of, look_under, remove_old

if TYPE_CHECKING:
    from tests.support.servers import Server

#: Names that somebody might have given, so that a key of ours looks like one of the original.
AWKWARD = ["a", "node:n1", "x}:{node:n1", "pool:en:zh:0:nodes", "a}:nodes", "job:1\n2"]
TAGS = [
    tag
    for name in AWKWARD
    for tag in (
        request_tag(name, name),
        session_tag(name),
        pairing_tag(name),
        audio_tag(name),
        rate_tag(name),
        instance_tag(name),
        seat_tag(name),
    )
]


def test_every_kind_of_tag_is_known() -> None:
    assert {tag.partition(":")[0] for tag in TAGS} == set(TAG_KINDS)


@pytest.mark.parametrize("prefix", ["lingua:v1", "lingua:v1:node", "lingua:v1:pool:x", "lingua:v1:streams"])
def test_no_key_of_ours_is_taken_for_one_of_the_original(prefix: str) -> None:
    """Not even one of another fleet whose longer prefix reads like the original's keys."""
    cells = [cell_key(prefix, cell, name) for cell in ("c0", "node", "job", "z9") for name in CELL_KEY_NAMES]
    tags = (*TAGS, DIRECTORY, DEAD_LETTERS, FEED)
    others = [cell_key(prefix, tag, name) for tag in tags for name in OUTSIDE_KEY_NAMES]
    assert [key for key in cells + others if kind_of("lingua:v1", key.encode())] == []


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("lingua:v1:node:gpu-1", "node:<node>"),
        ("lingua:v1:node:gpu-1:pools", "node:<node>:pools"),
        ("lingua:v1:nodes:all", "nodes:all"),
        ("lingua:v1:nodes:last_seen", "nodes:last_seen"),
        ("lingua:v1:nodes:owner:{node:gpu-1}", "nodes:owner:<node>"),
        ("lingua:v1:pool:zh:en:0:nodes", "pool:<pool>:nodes"),
        ("lingua:v1:job:job-1", "job:<job>"),
        ("lingua:v1:sessions:owner:{session:s1}", "sessions:owner:<session>"),
        ("lingua:v1:schedulers:presence:host-1", "schedulers:presence:<instance>"),
        ("lingua:v1:streams:{instance:host-1}:inbox", "streams:<instance>:inbox"),
        ("lingua:v1:{session:s1}:state", "{session:<session>}:<key>"),
        ("lingua:v1:{job:j1}:fsm", "{job:<job>}:<key>"),
        ("lingua:v1:{node:n1}:reservations", "{node:<node>}:<key>"),
        ("lingua:v1:something", None),
        ("lingua:v1:nodes", None),
        ("lingua:v10:node:gpu-1", None),
        ("lingua:v2:node:gpu-1", None),
        ("node:gpu-1", None),
    ],
)
def test_the_keys_of_the_original_are_known(key: str, kind: str | None) -> None:
    assert kind_of("lingua:v1", key.encode()) == kind


def test_a_key_that_is_no_text_is_told_as_well() -> None:
    assert kind_of("lingua:v1", b"lingua:v1:node:\xff\xfe") == "node:<node>"


async def test_of_many_keys_all_are_counted_and_only_the_old_ones_go(server: Server) -> None:
    async with await Engine.connect(server.url, "relics") as engine:
        for number in range(1_200):
            engine.command("SET", f"relics:node:n{number}", 1, cell=f"relics:node:n{number}")
            engine.command("SET", f"relics:{{sess:{number}}}:memory", 1, cell=f"sess:{number}")
        await engine.command("SET", b"relics:job:\xff", 1)
        await engine.command("HSET", cell_key("relics", "c7", "counts"), "schema", 1, cell="c7")
        found = await look_under(engine, "c0")
        assert (found.cells, found.old) == ({"c7"}, {"node:<node>": 1_200, "job:<job>": 1})
        assert await remove_old(engine, "c0") == 1_201
        found = await look_under(engine, "c0")
        assert (found.cells, found.old.total()) == ({"c7"}, 0)
        kept = [await engine.command("EXISTS", f"relics:{{sess:{n}}}:memory", cell=f"sess:{n}") for n in range(1_200)]
        assert sum(kept) == 1_200


def test_every_kind_has_a_pattern_that_matches_it() -> None:
    assert all(pattern.fullmatch(kind.encode()) for kind, pattern in KINDS.items())
