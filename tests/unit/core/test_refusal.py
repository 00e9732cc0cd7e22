from __future__ import annotations

import re
import string
from importlib.resources import files

import pytest

from lingua_scheduler.core.refusal import CODES, KEPT_AWAY, Breakdown, Invalid, Refusal, refuse
from lingua_scheduler.store.face import Face


@pytest.mark.parametrize("code", CODES)
def test_every_code_says_what_happened_and_whether_to_try_again(code: str) -> None:
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", code)
    known = CODES[code]
    assert 400 <= known.status < 600
    assert known.detail.endswith(".")
    assert known.retryable or known.retry_after_ms is None


@pytest.mark.parametrize("code", CODES)
def test_every_text_is_filled_in_with_what_the_message_named(code: str) -> None:
    fields = [field for _, field, _, _ in string.Formatter().parse(CODES[code].detail) if field]
    refusal = refuse(code, None, **dict.fromkeys(fields, "<it>"))
    assert refusal.code == code
    assert refusal.detail.count("<it>") == len(fields)
    assert "{" not in refusal.detail
    assert (refusal.status, refusal.retryable, refusal.retry_after_ms) == (
        CODES[code].status,
        CODES[code].retryable,
        CODES[code].retry_after_ms,
    )


def test_the_codes_are_those_of_the_protocol() -> None:
    """Status and retryable as PROTOCOL section 1 has them. The rest are ours, or have no status there."""
    protocol = {
        "INVALID_MESSAGE": (400, False),
        "INVALID_CAPABILITY_SCHEMA": (400, False),
        "UNKNOWN_NODE": (404, False),
        "UNKNOWN_JOB": (404, False),
        "NODE_MISMATCH": (409, False),
        "STALE_ATTEMPT": (409, False),
        "NODE_ID_CONFLICT": (409, False),
        "NO_CAPABLE_NODE": (422, False),
        "ALL_CANDIDATES_FULL_OR_FAILED": (503, True),
        "UNAUTHENTICATED": (401, False),
        "FORBIDDEN": (403, False),
        "INVALID_SESSION": (404, False),
        "IDEMPOTENCY_CONFLICT": (409, False),
        "PAYLOAD_TOO_LARGE": (413, False),
        "PREFERRED_NODE_NOT_CAPABLE": (422, False),
        "PREFERRED_NODE_UNAVAILABLE": (409, True),
        "RATE_LIMITED": (429, True),
        "SCHEDULER_DEPENDENCY_DOWN": (503, True),
        "OUTCOME_UNKNOWN": (503, True),
        "SHUTTING_DOWN": (503, True),
    }
    known = {name: (code.status, code.retryable) for name, code in CODES.items()}
    assert protocol.items() <= known.items()
    ours = {
        *("NOT_ENDED", "CELL_FULL", "INTERNAL", "INVALID_PAIRING_CODE", "SESSION_CLOSED", "UNSUPPORTED_FEATURE"),
        *("UNKNOWN_AUDIO", "UNKNOWN_POOL", "SESSION_TAKEN", "NODE_REPLACED", "HOME_GONE"),
        *("INSTANCE_GONE", "INBOX_FULL", "UNKNOWN_LETTER", "LINK_GONE"),
    }
    of_http = {"NOT_FOUND", "METHOD_NOT_ALLOWED", "REQUEST_TIMEOUT", "HEADERS_TOO_LARGE"}
    assert known.keys() - protocol.keys() == ours | of_http


def test_a_full_fleet_says_when_to_try_again() -> None:
    assert CODES["ALL_CANDIDATES_FULL_OR_FAILED"].retry_after_ms == 250


def test_a_refusal_may_know_better_than_its_code_when_to_try_again() -> None:
    assert refuse("RATE_LIMITED").retry_after_ms == 1000
    assert [Refusal("RATE_LIMITED", "", after_ms=after_ms).retry_after_ms for after_ms in (0, 7)] == [0, 7]


def test_a_breakdown_has_the_fields_of_the_protocol() -> None:
    assert Breakdown.__struct_fields__ == (
        "pool",
        "full",
        "stale",
        "not_ready",
        "draining",
        "resting",
        "marked",
        "excluded",
        "no_service",
        "not_permitted",
    )


def test_a_breakdown_says_what_kept_most_nodes_away() -> None:
    assert set(KEPT_AWAY) | {"pool"} == set(Breakdown.__struct_fields__)
    assert Breakdown().mostly == ""
    assert Breakdown(pool=9).mostly == ""
    assert Breakdown(pool=9, full=1, stale=3, not_permitted=5).mostly == "not_permitted"
    assert Breakdown(pool=4, full=2, draining=2).mostly == "full"


def test_an_invalid_message_carries_its_refusal() -> None:
    assert Invalid("node_id is missing").refusal == Refusal("INVALID_MESSAGE", "node_id is missing")
    assert Invalid("no", "INVALID_CAPABILITY_SCHEMA").refusal.code == "INVALID_CAPABILITY_SCHEMA"


def lua_sources() -> dict[str, str]:
    root = files("lingua_scheduler")
    return {
        f"{folder}/{path.name}": path.read_text(encoding="utf-8")
        for folder in ("flows", "flows/shared", "views")
        for path in (root / folder).iterdir()
        if path.name.endswith(".lua")
    }


def test_every_refusal_in_lua_is_a_code_in_python() -> None:
    """A table that begins with a code is an answer: what no face spells out must be a refusal."""
    answers = {answer for text in lua_sources().values() for answer in re.findall(r'\{ "([A-Z_]+)"', text)}
    told = {
        "ADMITTED",
        "ALIVE",
        "APPEARED",
        "AWAY",
        "BEATEN",
        "BURIED",
        "CLAIMED",
        "CLOSED",
        "COUNTS",
        "DEAD_LETTER",
        "DEAD_LETTERS",
        "ENLISTED",
        "FLEET",
        "FREED",
        "INSTANCE",
        "INSTANCES",
        "JOB",
        "JOBS",
        "CONNECTIONS",
        "LEFT",
        "LETTERS",
        "INTENDED",
        "MOVED",
        "NODE",
        "NODES",
        "OVERDUE",
        "PLACED",
        "POOLS",
        "REGISTERED",
        "RELEASED",
        "RETURNED",
        "REPLACED",
        "SEALED",
        "SENT",
        "SETTLED",
        "SLOTS",
        "STRAYS",
        "STRUCK",
        "TAKEN",
        "VANISHED",
        "DEBOUNCED",
        "LIMITED",
        "MARKED",
        "MEMORY",
        "PLACE",
        "REMEMBERED",
        "EXPLAINED",
        "ENTERED",
        "MAILBOX",
        "SCHEMA",
        "DOUBTED",
        "DROPPED",
        "SESSION",
        "ERASED",
        "PAIRED",
        "PAIRING",
        "WAITING",
        "AT",
        "WAITS",
        "FORGOTTEN",
        "HOME",
        "HOMES",
        "NOWHERE",
        "OCCUPIED",
        "ROOM",
        "ROUTED",
        "ROUTES",
        "UNROUTED",
        "VACATED",
        "OVERHEARD",
        "SILENCE",
        "GONE_ON",
        "KNOWN",
        "STAYS",
        "WITHDRAWN",
        "CHARTED",
        "HISTORY",
        "NOTED",
        "FEED",
        "OFFERED",
        "SEATED",
        "SEAT",
        "UNSEATED",
        "SENT_OUT",
        "HOSTED",
        "TURNED_AWAY",
        "LODGED",
        "NOT_ASKED",
        "BROUGHT_BACK",
        "UNHOSTED",
        "STRANDED",
    }
    states = {"CREATED", "RESERVED"}
    assert answers - told - states <= set(CODES)
    assert {"UNKNOWN_JOB", "UNKNOWN_NODE", "STALE_ATTEMPT", "NO_CAPABLE_NODE"} <= answers


def test_a_script_can_refuse_only_with_a_known_code() -> None:
    with pytest.raises(KeyError):
        Face("flows/ack", refuses=("NO_SUCH_CODE",))
