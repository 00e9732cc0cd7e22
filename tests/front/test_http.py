"""Requests as they come over a real socket: what is answered, in which shape, and what becomes of the connection."""

from __future__ import annotations

import asyncio
import json
import logging
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import httpx2
import pytest

from lingua_scheduler.front.ending import Ending
from lingua_scheduler.front.web import Reply, Route
from tests.front.routes import LARGE, ROUTES
from tests.support.doors import PATIENCE_S, Raw, open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request
    from tests.support.doors import Open
    from tests.support.servers import Server

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def door(server: Server) -> AsyncIterator[Open]:
    async with open_door(server.url, ROUTES, server__body_timeout_ms=400, server__drain_ms=200) as opened:
        yield opened


@pytest.fixture
async def raw(door: Open) -> AsyncIterator[Raw]:
    async with Raw.connect(door.port) as connection:
        yield connection


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def test_whoever_watches_over_processes_is_answered(door: Open) -> None:
    async with httpx2.AsyncClient(base_url=door.server.url) as client:
        health = await client.get("/health")
        assert (health.status_code, health.text) == (200, "OK")
        assert (await client.get("/livez")).json() == {"ok": True}
        assert (await client.get("/readyz")).json() == {"ok": True}
        door.desk.is_draining.set()
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["error"] == "SHUTTING_DOWN"
        assert ready.headers["retry-after"] == "1"
        assert (await client.get("/livez")).status_code == 200


async def test_an_instance_whose_engine_is_away_is_alive_and_not_ready(door: Open) -> None:
    await door.desk.engine.close()
    async with httpx2.AsyncClient(base_url=door.server.url) as client:
        assert (await client.get("/livez")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["error"]) == (503, "SCHEDULER_DEPENDENCY_DOWN")


async def test_what_is_not_there_is_refused_in_the_shape_of_all_refusals(raw: Raw) -> None:
    answer = await raw.get("/v1/nothing")
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.said["error"] == "NOT_FOUND"
    assert answer.said["retryable"] is False
    assert answer.said["trace_id"] in answer.headers["traceparent"]


async def test_another_method_is_refused_with_those_that_there_are(raw: Raw) -> None:
    answer = await raw.get("/livez", method="DELETE")
    assert (answer.status, answer.said["error"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_head_is_get_without_the_body_and_the_connection_goes_on(raw: Raw) -> None:
    answer = await raw.get("/livez", method="HEAD")
    assert (answer.status, answer.headers["content-length"]) == (200, "11")
    assert (await raw.get("/livez")).said == {"ok": True}


async def test_options_says_what_can_be_done_here(raw: Raw) -> None:
    answer = await raw.get("/v1/seen", method="OPTIONS")
    assert answer.status == 204
    assert answer.headers["allow"] == "OPTIONS, POST"
    assert "content-length" not in answer.headers
    assert (await raw.get("/livez")).status == 200


async def test_the_trace_of_the_caller_goes_on_and_a_new_one_begins_without(raw: Raw) -> None:
    parent = f"00-{TRACE}-b7ad6b7169203331-00"
    answer = await raw.get("/v1/seen/x", f"traceparent: {parent}")
    assert answer.said["trace_id"] == TRACE
    assert answer.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert answer.headers["traceparent"].endswith("-00")
    assert answer.headers["traceparent"] != parent
    for wrong in ("", "00-zz", f"ff-{TRACE}-b7ad6b7169203331-00", f"00-{'0' * 32}-b7ad6b7169203331-00"):
        fresh = (await raw.get("/v1/seen/x", f"traceparent: {wrong}")).said["trace_id"]
        assert len(fresh) == 32
        assert fresh != TRACE


async def test_names_and_parameters_are_handed_on(raw: Raw) -> None:
    seen = (await raw.get("/v1/seen/a%20b?limit=007&all=TRUE&src=zh&unknown=1")).said
    assert seen["named"] == {"id": "a b"}
    assert seen["query"] == {"limit": "7", "all": "true", "src": "zh"}


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=", "limit=9" * 9, "all=maybe"])
async def test_a_parameter_that_cannot_be_right_is_named(raw: Raw, query: str) -> None:
    answer = await raw.get(f"/v1/seen/x?{query}")
    assert (answer.status, answer.said["error"]) == (400, "INVALID_MESSAGE")
    assert query.partition("=")[0] in answer.said["detail"]


async def test_a_body_is_read_whatever_it_says_that_it_is(raw: Raw) -> None:
    await raw.write(post("/v1/seen", b'{"job_id": "c0.1"}', "Content-Type: application/x-www-form-urlencoded"))
    assert (await raw.answer()).said["job_id"] == "c0.1"


async def test_a_body_that_does_not_fit_is_refused_by_field(raw: Raw) -> None:
    for body, named in ((b"{}", "job_id"), (b"{", "not JSON"), (b"", "not JSON"), (b'{"job_id": "{a}"}', "job_id")):
        await raw.write(post("/v1/seen", body))
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (400, "INVALID_MESSAGE")
        assert named in answer.said["detail"]


async def test_a_body_in_chunks_is_one_body(raw: Raw) -> None:
    await raw.write(b"POST /v1/seen HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (b'{"job', b'_id": ', b'"c0.2"}'):
        await raw.write(b"%x\r\n%b\r\n" % (len(part), part))
    await raw.write(b"0\r\nTrailer: x\r\n\r\n")
    assert (await raw.answer()).said["job_id"] == "c0.2"
    assert (await raw.get("/livez")).status == 200


async def test_requests_in_one_write_are_answered_in_order(raw: Raw) -> None:
    gets = b"".join(b"GET /v1/seen/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % n for n in range(20))
    await raw.write(gets + post("/v1/seen", b'{"job_id": "c0.3"}'))
    assert [(await raw.answer()).said["named"]["id"] for _ in range(20)] == [str(n) for n in range(20)]
    assert (await raw.answer()).said["job_id"] == "c0.3"


async def test_many_requests_behind_a_slow_one_have_their_turns(door: Open, raw: Raw) -> None:
    count = 128
    await raw.write(b"GET /v1/wait HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"GET /livez HTTP/1.1\r\n\r\n" * count)
    door.desk.is_draining.set()
    assert (await raw.answer()).body == b"drained"
    assert all([(await raw.answer()).said == {"ok": True} for _ in range(count)])


async def test_while_an_answer_is_not_read_the_next_is_not_made(server: Server) -> None:
    made = 0

    async def make(_desk: Desk, _request: Request) -> Reply:
        nonlocal made
        made += 1
        return Reply(b"x" * LARGE)

    routes = (*ROUTES, Route("GET", "/v1/made", "admin", make, "Make."))
    async with (
        open_door(server.url, routes) as door,
        Raw.connect(door.port) as raw,
        Raw.connect(door.port) as other,
    ):
        await raw.write(b"GET /v1/made HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        while made == 0:
            await other.get("/livez")
        await raw.write(b"GET /v1/made HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(10):
            await other.get("/livez")
        assert made == 1
        for _ in range(3):
            assert len((await raw.answer()).body) == LARGE
        assert made == 3


async def test_every_answer_has_its_date(raw: Raw) -> None:
    for path in ("/livez", "/v1/nothing"):
        assert parsedate_to_datetime((await raw.get(path)).headers["date"]).tzinfo is not None
    await raw.write(b"no HTTP\r\n\r\n")
    assert "date" in (await raw.answer()).headers


async def test_who_says_close_is_closed_and_old_http_is_spoken(door: Open) -> None:
    async with Raw.connect(door.port) as raw:
        answer = await raw.get("/livez", "Connection: close")
        assert answer.headers["connection"] == "close"
        assert await raw.rest() == b""
    async with Raw.connect(door.port) as raw:
        await raw.write(b"GET /livez HTTP/1.0\r\n\r\n")
        assert (await raw.answer()).said == {"ok": True}
        assert await raw.rest() == b""


async def test_a_body_that_is_too_large_is_refused_and_the_connection_goes_on(raw: Raw) -> None:
    size = 200_001
    await raw.write(post("/v1/raw", b"x" * size))
    answer = await raw.answer()
    assert (answer.status, answer.said["error"]) == (413, "PAYLOAD_TOO_LARGE")
    await raw.write(b"POST /v1/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    await raw.write(b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size))
    assert (await raw.answer()).status == 413
    await raw.write(post("/v1/raw", b"x" * (size - 1)))
    assert (await raw.answer()).said["size"] == size - 1


@pytest.mark.parametrize(
    ("how", "status", "error"),
    [
        ("down", 503, "SCHEDULER_DEPENDENCY_DOWN"),
        ("unknown", 503, "OUTCOME_UNKNOWN"),
        ("ours", 500, "INTERNAL"),
        ("bug", 500, "INTERNAL"),
    ],
)
async def test_what_breaks_is_told_in_the_same_shape_and_its_secrets_stay_here(
    raw: Raw, caplog: pytest.LogCaptureFixture, how: str, status: int, error: str
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = await raw.get(f"/v1/fail/{how}")
    assert (answer.status, answer.said["error"]) == (status, error)
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert (answer.said["trace_id"] in caplog.text) == (error == "INTERNAL")
    assert ("retry-after" in answer.headers) == (status == 503)
    assert (await raw.get("/livez")).status == 200


@pytest.mark.parametrize("path", ["/v1/broken", "/v1/hasty"])
async def test_an_answer_that_cannot_be_given_is_a_mistake_of_ours(raw: Raw, path: str) -> None:
    answer = await raw.get(path)
    assert (answer.status, answer.said["error"]) == (500, "INTERNAL")
    assert (await raw.get("/livez")).status == 200


async def test_who_hangs_up_within_his_body_is_not_waited_for(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    async with open_door(server.url, ROUTES, server__drain_ms=60_000) as door:
        async with Raw.connect(door.port) as raw, Raw.connect(door.port) as other:
            await raw.write(post("/v1/raw", b"abc").replace(b": 3", b": 9"))
            await other.get("/livez")
        async with Raw.connect(door.port) as other:
            assert (await other.get("/livez")).status == 200
        async with asyncio.timeout(PATIENCE_S):
            await door.server.__aexit__(None, None, None)
    assert caplog.text == ""


async def test_who_is_to_wait_is_told_how_long(raw: Raw) -> None:
    answer = await raw.get("/v1/full")
    assert (answer.status, answer.headers["retry-after"], answer.said["retry_after_ms"]) == (429, "1", 1000)


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / SPEECH/9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST /v1/seen HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://somebody@localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET ftp://localhost/livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/seen HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_http_is_refused_and_closed(door: Open, junk: bytes) -> None:
    async with Raw.connect(door.port) as raw:
        await raw.write(junk)
        answer = await raw.answer()
        assert answer.status == 400
        assert answer.said["error"] == "INVALID_MESSAGE"
        assert await raw.rest() == b""
    async with Raw.connect(door.port) as raw:
        assert (await raw.get("/livez")).status == 200


async def test_a_plain_request_at_a_socket_is_told_so(server: Server) -> None:
    async def serve(*_: object) -> None: ...

    async with open_door(server.url, ROUTES, serve_node=serve) as door, Raw.connect(door.port) as raw:
        answer = await raw.get("/ws/node")
        assert answer.status == 400
        assert "WebSocket" in answer.said["detail"]
        assert (await raw.get("/ws/session")).status == 404


async def test_the_documents_are_served_and_the_page_needs_nobody_else(door: Open) -> None:
    async with httpx2.AsyncClient(base_url=door.server.url) as client:
        openapi = (await client.get("/openapi.json")).json()
        assert openapi["openapi"] == "3.1.0"
        assert "/v1/seen/{id}" in openapi["paths"]
        assert (await client.get("/asyncapi.json")).json()["asyncapi"] == "3.0.0"
        page = await client.get("/docs")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "http://" not in page.text
        assert "https://" not in page.text


async def test_a_long_poll_is_answered_when_the_instance_drains(server: Server) -> None:
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET /v1/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with Raw.connect(door.port) as idle:
            await idle.get("/livez")
            door.desk.is_draining.set()
            await door.server.__aexit__(None, None, None)
            assert await idle.rest() == b""
        answer = await raw.answer()
        assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"drained", "close")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", door.port)


async def test_who_does_not_come_to_an_end_while_the_instance_drains_is_refused(server: Server) -> None:
    async with open_door(server.url, ROUTES, server__drain_ms=50) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET /v1/hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
        door.desk.is_draining.set()
        await door.server.__aexit__(None, None, None)
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (503, "SHUTTING_DOWN")
        assert json.loads(answer.body)["retryable"] is True


async def test_the_drain_counts_from_when_the_instance_was_asked_to_stop(server: Server) -> None:
    """What came before it, as sessions that were brought on their way, took an hour."""
    async with open_door(server.url, ROUTES, server__drain_ms=3_600_000) as door, Raw.connect(door.port) as raw:
        now_s = 0.0
        door.server.ending = Ending(3_600_000, lambda: now_s)
        door.server.ending.begin()
        now_s += 3_600
        await raw.write(b"GET /v1/hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
        door.desk.is_draining.set()
        async with asyncio.timeout(PATIENCE_S):
            await door.server.__aexit__(None, None, None)
        assert (await raw.answer()).status == 503


async def test_a_body_that_does_not_come_to_an_end_while_the_instance_drains_is_refused(server: Server) -> None:
    async with open_door(server.url, ROUTES, server__drain_ms=50) as door, Raw.connect(door.port) as raw:
        await raw.write(post("/v1/raw", b"abc").replace(b": 3", b": 9"))
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
        door.desk.is_draining.set()
        await door.server.__aexit__(None, None, None)
        answer = await raw.answer()
        assert (answer.status, answer.said["error"]) == (503, "SHUTTING_DOWN")
        assert answer.headers["connection"] == "close"


async def test_a_body_may_come_to_its_end_while_the_instance_drains(server: Server) -> None:
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw:
        await raw.write(post("/v1/raw", b"abc").replace(b": 3", b": 6"))
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
            stopping = asyncio.create_task(door.server.__aexit__(None, None, None))
            assert await other.rest() == b""
        await raw.write(b"def")
        answer = await raw.answer()
        assert (answer.said["size"], answer.headers["connection"]) == (6, "close")
        await stopping


async def test_who_is_cut_off_without_any_warning_is_refused(server: Server) -> None:
    async with open_door(server.url, ROUTES) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET /v1/hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
        await door.server.__aexit__(RuntimeError, RuntimeError(), None)
        answer = await raw.answer()
        assert (answer.status, answer.headers["connection"]) == (503, "close")


async def test_what_went_on_all_the_same_is_given_up_when_its_caller_is_refused(server: Server) -> None:
    given_up = 0

    async def go_on(_desk: Desk, _request: Request) -> Reply:
        nonlocal given_up
        while given_up < 2:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                given_up += 1
        raise asyncio.CancelledError

    stubborn = Route("GET", "/v1/stubborn", "", go_on, "Goes on.", walks=True)
    async with open_door(server.url, [*ROUTES, stubborn]) as door, Raw.connect(door.port) as raw:
        await raw.write(b"GET /v1/stubborn HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with Raw.connect(door.port) as other:
            await other.get("/livez")
        await door.server.__aexit__(RuntimeError, RuntimeError(), None)
        assert given_up == 2
        assert (await raw.answer()).status == 503
        assert await raw.rest() == b""
