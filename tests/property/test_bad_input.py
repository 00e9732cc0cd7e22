"""Bad input, at every door: a refusal that names the field, and no key is touched.

Each flow and view is called with everything right but one argument, which is junk: of the wrong type, out of bounds,
braces and colons, 10 kB, half a character, not a number. Junk that happens to be right is not drawn. Then with a
node, a job or a cell that nobody knows.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.ids import check_id
from lingua_scheduler.core.limits import Limits
from lingua_scheduler.core.records import Event
from lingua_scheduler.core.refusal import CODES, Invalid, Refusal
from lingua_scheduler.core.wanted import Hints, Policy, Wanted
from lingua_scheduler.views.audit import audit, audit_whole
from lingua_scheduler.views.cell import read_cell
from lingua_scheduler.views.fleet import read_fleet
from lingua_scheduler.views.job import read_job
from lingua_scheduler.views.node import read_node
from lingua_scheduler.views.nodes import read_nodes
from lingua_scheduler.views.pools import read_pools
from tests.property.differences import differences
from tests.property.machine import Arena
from tests.property.outcomes import FLOWS
from tests.support.world import CELL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lingua_scheduler.core.cell import Cell
    from tests.support.servers import Server

DOORS: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    **FLOWS,
    **{
        view.__name__: view
        for view in (audit, audit_whole, read_cell, read_fleet, read_job, read_node, read_nodes, read_pools)
    },
}

NAN: Final = float("nan")
HALF: Final = "\ud800"
JOB: Final = f"{CELL}.j1"

_THINGS: Final[tuple[object, ...]] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    1.0,
    NAN,
    "",
    "x",
    HALF,
    b"x",
    [],
    ["x"],
    {},
    {"x": 1},
    object(),
)


def _without(*fine: object) -> tuple[object, ...]:
    """All sorts of things but these. (1 is not True here.)"""
    kept = [thing for thing in _THINGS if not any(type(thing) is type(f) and thing == f for f in fine)]
    return tuple(kept)


def _is_id(text: str) -> bool:
    try:
        return bool(check_id("x", text))
    except Invalid:
        return False


@dataclass(frozen=True)
class Kind:
    """What is wrong for an argument of this kind: examples, and a way to find more."""

    wrong: tuple[object, ...]
    more: st.SearchStrategy[Any] | None = None

    def junk(self) -> st.SearchStrategy[Any]:
        known = st.sampled_from(self.wrong)
        return known if self.more is None else known | self.more

    def but(self, *fine: object) -> Kind:
        """As this kind, but for a few things that are right."""
        return Kind(tuple(thing for thing in self.wrong if thing not in fine), self.more)


def _whole(least: int, most: int) -> Kind:
    wrong = tuple(x for x in _THINGS if not (type(x) is int and least <= x <= most))
    return Kind((*wrong, least - 1, most + 1), st.integers(max_value=least - 1) | st.integers(most + 1) | st.floats())


def _text(most: int) -> Kind:
    texts = tuple(x for x in _THINGS if not isinstance(x, str))
    return Kind((*texts, "x" * (most + 1), f"a{HALF}b"), st.text(st.characters(categories=["Cs"]), min_size=1))


_BAD_IDS: Final = ("{c0}", "a b", "a:b", "-x", ".x", "n\n", "ü", "n\0", "*", "x" * 129, "x" * 10_000)
_ID: Final = Kind((*_without("x"), *_BAD_IDS), st.text(max_size=20).filter(lambda text: not _is_id(text)))
_JOB_ID: Final = Kind(
    (*_THINGS, *_BAD_IDS, "c0.", ".x", "C0.x", "c0x", "0c.x", "c0.{x}", "c0.x:1", "c0." + "x" * 112),
    st.text(max_size=20).filter(lambda text: "." not in text),
)
_CELL: Final = Kind((*_without("x"), *_BAD_IDS, "C0", "0c", "c" * 17, "c.0"), st.text("{}:*[]?\\ \n", min_size=1))
_BOOL: Final = Kind(_without(True, False))
_LANGUAGE: Final = Kind(
    (*_THINGS, HALF, "klingon", "xx-YY", "*", "zh:en", "z" * 10_000, "zh" + HALF), st.text("{}:*/ \n", min_size=1)
)
_LANGUAGES: Final = Kind(
    (
        *_without(None, []),
        {"zh": 1},
        ["zh"] * 65,
        ["zh", None],
        ["zh", HALF],
        ["tlhx"],
        ["{zh}"],
        ["zh:en"],
        ["z" * 10_000],
        [["zh"]],
        "zh",
    ),
    st.lists(st.none() | st.integers() | st.binary(), min_size=1),
)
_PAIRS: Final = Kind(
    (
        *_without(None, []),
        [["zh"]],
        ["zh"],
        [["zh", "en", "fr"]],
        [["zh", 1]],
        [["zh", "tlhx"]],
        [["zh", HALF]],
        [["{zh}", "en"]],
        [["zh", "z" * 10_000]],
        "zh:en",
        [["zh", "en"]] * 1025,
    )
)
_SERVICES: Final = Kind(
    (*_without(None, {}, {"x": 1}), {"asr": 1}, {"asr": "yes"}, {"coffee": True, "nmt": 0}, [("asr", True)])
)
_MANY: Final = {str(number): "" for number in range(33)}
_LABELS: Final = Kind(
    (*_without(None, {}), {"a": 1}, {1: "a"}, {"a": HALF}, {HALF: "a"}, {"a": "x" * 129}, {"x" * 65: ""}, _MANY)
)
_LOAD: Final = Kind(
    (*_without(None, {}, {"x": 1}), {"gpu": NAN}, {"gpu": 1.1}, {"gpu": -0.1}, {"gpu": True}, {"gpu": "1", "x": 1})
)
_RUNNING: Final = Kind(
    (
        *_without(None, []),
        [JOB],
        [(JOB,)],
        [(JOB, 0)],
        [(JOB, True)],
        [(JOB, 1.0)],
        [("x", 1)],
        [(None, 1)],
        [(JOB, 1)] * 4097,
        [(JOB, 1, 1)],
        [("c0.{x}", 1)],
        [("c0." + "x" * 10_000, 1)],
        [(JOB, -1)],
    )
)
_EVENTS: Final = Kind(
    (*_without([]), [None], [("ended",)], [msgspec.structs.asdict(Event("ended", JOB, 1, "n1", "", "", 1))])
)
_HEALTH: Final = Kind((*_THINGS, "READY", "ready "))
_LIMITS: Final = Kind((*_THINGS, msgspec.structs.asdict(Limits()), msgspec.structs.astuple(Limits()), Limits))
#: What is left out is an empty text.
_NAME: Final = Kind((*_without("x", ""), *_BAD_IDS), st.text("{}:*/ \n", min_size=1))
_NAMES: Final = Kind(
    (
        *_without([], ["x"]),
        {"n1"},
        {"n1": 1},
        "n1",
        ["n1", None],
        ["n1", 1],
        [["n1"]],
        [""],
        [b"n1"],
        [f"n{number}" for number in range(17)],
        ["n1"] * 17,
        *([bad] for bad in _BAD_IDS),
    ),
    st.lists(st.none() | st.integers() | st.binary() | st.text("{}:*/ \n"), min_size=1),
)
_PIPELINE: Final = Kind(
    (
        *_without([]),
        "asr",
        {"asr": True},
        ["asr", None],
        ["asr", "ASR"],
        ["coffee"],
        ["asr "],
        [["asr"]],
        [b"asr"],
        ["asr" * 10_000],
        [HALF],
    ),
    st.lists(st.none() | st.integers() | st.binary() | st.text("{}:*/ \n"), min_size=1),
)
_NOTHING: Final[tuple[object, ...]] = (None, False, 0, [], {})
_POLICY: Final = Kind(
    (*_without(""), "Random", "random ", "least-loaded", "best", "x" * 10_000, Policy.random, ["random"]),
    st.text(min_size=1, max_size=5),
)
_SERVICE: Final = Kind(
    (*_without(""), "ASR", "asr ", "coffee", "x" * 10_000, ["asr"], b"asr"),
    st.text("{}:*/ \n", min_size=1),
)
_WANTED: Final = Kind((*_THINGS, msgspec.structs.asdict(Wanted()), msgspec.structs.astuple(Wanted()), Wanted, Hints()))
_HINTS: Final = Kind((*_THINGS, msgspec.structs.asdict(Hints()), msgspec.structs.astuple(Hints()), Hints, Wanted()))
_CURSOR: Final = Kind((*_THINGS, "-1", " 1", "٣", "1" * 21, "9" * 20, "0x1"))

#: What each argument takes, by its name; the few that differ from door to door are named with it.
KINDS: Final[dict[str, Kind]] = {
    "cell": _CELL,
    "node_id": _ID,
    "job_id": _JOB_ID,
    "session_id": _ID,
    "attempt_id": _whole(1, 1_000_000),
    "epoch": _text(64),
    "process_id": _text(128),
    "credential": _text(128),
    "about": _text(16_384),
    "trace_id": _text(128),
    "body": _text(64 * 1024),
    "result": _text(4 * 1024 * 1024),
    "reason": _text(512),
    "register.connection": _text(64),
    "heartbeat.connection": _text(64),
    "mark.connection": _text(64),
    "disconnect.connection": _ID,
    "nonce": _ID.but(None),
    "stamp": _whole(0, 2**53),
    "opened_ms": _whole(0, 2**53),
    "said_ms": _whole(0, 2**53),
    "hop": _whole(0, 2**31),
    "src_lang": _LANGUAGE,
    "tgt_lang": _LANGUAGE,
    "pair": Kind((*_LANGUAGE.but("", "zh:en").wrong, "zh", "zh:", ":en", "zh:en:fr", "zh:*")),
    "semantic_langs": Kind((*_LANGUAGES.wrong, [])),
    "asr_langs": _LANGUAGES,
    "tts_langs": _LANGUAGES,
    "nmt_pairs": _PAIRS,
    "services": _SERVICES,
    "service": _text(128).but(*_NOTHING),
    "service_type": _SERVICE,
    "labels": _LABELS,
    "accept_public_jobs": Kind(_without(None, True, False)),
    "current_load": _LOAD,
    "running": _RUNNING,
    "running_jobs": _whole(0, 4096).but(None),
    "register.max_concurrent_jobs": _whole(1, 1024),
    "heartbeat.max_concurrent_jobs": _whole(1, 1024).but(None),
    "limit.max_concurrent_jobs": _whole(1, 1024).but(None),
    "register.health": _HEALTH,
    "heartbeat.health": _HEALTH.but(None),
    "renewed_by": Kind((*_without(""), "nobody", "Node", "node ", ["node"], b"node")),
    "acks": _BOOL,
    "tells": _BOOL,
    "lenient": _BOOL,
    "sent": _BOOL,
    "how": Kind((*_without("closed"), "shut", "Closed", "closed ", ["closed"], b"closed")),
    "overloaded": _BOOL,
    "unsure": _BOOL,
    "retry_after_ms": _whole(0, 86_400_000),
    "result_ttl_ms": _whole(1, 172_800_000),
    "lease_ms": _whole(0, 600_000),
    "utterance_index": _whole(0, 2**53),
    "seed": _whole(0, 2**32 - 1).but(None),
    "limits": _LIMITS,
    "limits.ack_ms": _whole(1, 86_400_000),
    "limits.run_ms": _whole(1, 86_400_000),
    "limits.timeout_ms": _whole(1, 86_400_000),
    "limits.max_retry": _whole(0, 10),
    "wanted": _WANTED,
    "wanted.services": _PIPELINE,
    "wanted.preferred_node_id": _NAME,
    "wanted.strict": Kind((*_BOOL.wrong, True)),
    "wanted.exclude_node_ids": _NAMES,
    "wanted.labels": Kind((None, *_LABELS.wrong)),
    "wanted.policy": _POLICY,
    "wanted.two_way": _BOOL,
    "wanted.wait_ms": _whole(0, 60_000),
    "hints": _HINTS,
    "hints.bound_node_id": _NAME,
    "hints.last_node_id": _NAME,
    "hints.last_pool": _text(128),
    "hints.seen_node_ids": _NAMES,
    "reap.limit": _whole(1, 10_000),
    "relay.limit": _whole(0, 10_000),
    "handed_over": _EVENTS,
    "cursor": _CURSOR,
    "count": _whole(1, 10_000),
    "overdue_ms": _whole(0, 10**15),
}

#: A call that is right, but for the argument that is not.
RIGHT: Final[dict[str, Any]] = {
    "cell": CELL,
    "node_id": "n1",
    "job_id": JOB,
    "session_id": "s1",
    "attempt_id": 1,
    "connection": "s1",
    "max_concurrent_jobs": 2,
    "src_lang": "zh",
    "tgt_lang": "en",
    "reason": "",
    "semantic_langs": ["zh"],
}
#: Arguments that have fields of their own.
_STRUCTS: Final[dict[str, type[msgspec.Struct]]] = {"limits": Limits, "wanted": Wanted, "hints": Hints}
#: Fields inside a field.
_INNER: Final = {"running": ("attempt_id", "job_id"), "body": ("payload",)}


def _arguments(door: str) -> Iterator[str]:
    for name in inspect.signature(DOORS[door]).parameters:
        if name != "engine":
            yield name
        if name in _STRUCTS:
            yield from (f"{name}.{field}" for field in _STRUCTS[name].__struct_fields__)


CASES: Final = [(door, name) for door in DOORS for name in _arguments(door)]


def _call(door: str, name: str, value: object) -> dict[str, Any]:
    wanted = inspect.signature(DOORS[door]).parameters
    named = {right: what for right, what in RIGHT.items() if right in wanted}
    argument, _, field = name.partition(".")
    return {**named, argument: _STRUCTS[argument](**{field: value}) if field else value}


class House:
    """A cell with a node, a job and mail, so that there is something to spoil."""

    def __init__(self, runner: asyncio.Runner, arena: Arena) -> None:
        self.runner = runner
        self.arena = arena
        runner.run(self._furnish())
        self.before: Cell = runner.run(arena.cell())
        self.keys = runner.run(arena.keys())

    async def _furnish(self) -> None:
        engine = self.arena.engine
        for node_id in ("n1", "n2"):
            await FLOWS["register"](engine, CELL, node_id, semantic_langs=["zh", "en"], connection="s1")
        await FLOWS["dispatch"](engine, JOB, "s1", "zh", "en", body="hello")
        await FLOWS["dispatch"](engine, f"{CELL}.j2", "s1", "zh", "en")
        await FLOWS["cancel"](engine, f"{CELL}.j2")

    def ask(self, door: str, named: dict[str, Any]) -> Any:
        """What a call is answered; whatever that is, no key may have changed, in this cell or any other."""
        answer = self.runner.run(self._ask(door, named))
        before, self.before = self.before, self.runner.run(self.arena.cell())
        assert not differences(self.before, before), f"{door}({named!r:.200}) changed something"
        assert self.runner.run(self.arena.keys()) == self.keys, f"{door}({named!r:.200}) made a key"
        return answer

    def refused(self, door: str, named: dict[str, Any]) -> Refusal:
        """What a call is refused with."""
        answer = self.ask(door, named)
        assert isinstance(answer, Refusal), f"{door}({named!r:.200}) was answered {answer!r}"
        assert len(answer.detail) < 400
        answer.detail.encode()
        return answer

    async def _ask(self, door: str, named: dict[str, Any]) -> Any:
        return await DOORS[door](self.arena.engine, **named)


@pytest.fixture(scope="module")
def house(server: Server) -> Iterator[House]:
    with asyncio.Runner() as runner:
        arena = Arena()
        runner.run(arena.open(server.url))
        yield House(runner, arena)
        runner.run(arena.close())


def _kind(door: str, name: str) -> Kind:
    return KINDS.get(f"{door}.{name}") or KINDS[name]


def _check(house: House, door: str, name: str, value: object) -> None:
    refusal = house.refused(door, _call(door, name, value))
    codes = {"INVALID_MESSAGE", "INVALID_CAPABILITY_SCHEMA", "PAYLOAD_TOO_LARGE"}
    assert refusal.code in codes & CODES.keys(), refusal
    fields = (name.rpartition(".")[2].removesuffix("s"), *_INNER.get(name, ()))
    told = f"{door}({name}={value!r:.60}) was told {refusal.detail!r}"
    assert any(field in refusal.detail for field in fields), told


@pytest.mark.parametrize(("door", "name"), CASES, ids=str)
def test_wrong_input_is_refused_by_the_name_of_its_field_and_changes_no_key(house: House, door: str, name: str) -> None:
    for value in _kind(door, name).wrong:
        _check(house, door, name, value)


@settings(max_examples=300, derandomize=True)
@given(data=st.data())
def test_whatever_junk_arrives_wherever_it_is_refused_and_changes_no_key(house: House, data: st.DataObject) -> None:
    door, name = data.draw(st.sampled_from(CASES))
    _check(house, door, name, data.draw(_kind(door, name).junk()))


@pytest.mark.parametrize("name", ["wanted.preferred_node_id", "hints.bound_node_id", "hints.last_node_id"])
@pytest.mark.parametrize("nothing", _NOTHING, ids=repr)
def test_only_an_empty_text_is_no_name(house: House, name: str, nothing: object) -> None:
    _check(house, "dispatch", name, nothing)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (Wanted(strict=True), "strict"),
        (Wanted(strict=True, exclude_node_ids=["n1"]), "strict"),
        (Wanted(preferred_node_id="n1", exclude_node_ids=["n1"]), "preferred_node_id"),
        (Wanted(preferred_node_id="n2", exclude_node_ids=["n3", "n2"], strict=True), "exclude_node_ids"),
    ],
    ids=str,
)
def test_wishes_that_contradict_each_other_are_refused_and_change_no_key(
    house: House, wanted: Wanted, field: str
) -> None:
    refusal = house.refused("dispatch", _call("dispatch", "wanted", wanted))
    assert refusal.code == "INVALID_MESSAGE"
    assert field in refusal.detail


#: Names that could be somebody's, and are nobody's here.
STRANGERS: Final[dict[str, tuple[str, ...]]] = {
    "node_id": ("nobody", "N1", "n1.", "n", "n11", "x" * 128),
    "job_id": (f"{CELL}.nobody", f"{CELL}.j", f"{CELL}.j11", f"{CELL}.J1", f"{CELL}." + "x" * 111, "c9.j1"),
    "cell": ("c9", "c", "c00"),
}
#: These make what they are asked about.
_MAKERS: Final = {("register", "node_id"), ("register", "cell"), ("dispatch", "job_id")}


def _unknown(door: str, name: str) -> str:
    """How a door refuses somebody whom nobody knows; "" if it names nobody."""
    wanted = inspect.signature(DOORS[door]).parameters
    if name == "node_id":
        return "NODE_MISMATCH" if "job_id" in wanted else "UNKNOWN_NODE"
    if name == "job_id":
        return "UNKNOWN_JOB"
    return "UNKNOWN_NODE" if "node_id" in wanted else ""


@pytest.mark.parametrize(
    ("door", "name"), [case for case in CASES if case[1] in STRANGERS and case not in _MAKERS], ids=str
)
def test_whom_nobody_knows_is_refused_by_name_and_changes_no_key(house: House, door: str, name: str) -> None:
    for stranger in STRANGERS[name]:
        named, code = _call(door, name, stranger), _unknown(door, name)
        if not code:
            assert not isinstance(house.ask(door, named), Refusal)  # an empty cell is a cell
            continue
        refusal = house.refused(door, named)
        assert refusal.code == code
        assert named["node_id" if name == "cell" else name] in refusal.detail


@pytest.mark.parametrize("nothing", _NOTHING, ids=repr)
def test_only_an_empty_text_is_no_service(house: House, nothing: object) -> None:
    """The last here, as long as it marks the node of the house."""
    _check(house, "mark", "service", nothing)
