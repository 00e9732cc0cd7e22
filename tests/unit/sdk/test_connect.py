"""Getting to the scheduler: what is shown, and what it means that there is no socket."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.http11 import Response

from lingua_scheduler.core.refusal import refuse
from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode, error_message, farewell, refusal_body
from lingua_scheduler.sdk import Client, Node
from lingua_scheduler.sdk._address import Address
from lingua_scheduler.sdk._connect import announced, fetch_audio, headers_of, open_socket, token_of, version_of_us
from lingua_scheduler.sdk.client_errors import Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request

AGENT = f"lingua-scheduler/{version('lingua-scheduler')}"


def test_a_token_is_that_of_the_environment_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINGUA_TOKEN", raising=False)
    assert token_of(None) is None
    monkeypatch.setenv("LINGUA_TOKEN", "secret")
    assert (token_of(None), token_of("mine")) == ("secret", "mine")


@pytest.mark.parametrize("token", ["SECRET\n", " SECRET\r\n", "\tSECRET "])
def test_what_a_file_puts_around_a_token_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("LINGUA_TOKEN", token)
    assert (token_of(None), token_of(token)) == ("SECRET", "SECRET")
    monkeypatch.setenv("LINGUA_TOKEN", " \n")
    assert token_of(" ") is None


@pytest.mark.parametrize("token", ["SEC\nRET", "SEC RET", "SECRET\x01", "SECRETÉ", "中SECRET", "SECRET" * 2_000])
def test_what_cannot_be_a_token_is_told_without_it(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("LINGUA_TOKEN", token)
    for take in (lambda: token_of(None), lambda: Client(token=token), lambda: Node(["en"], token=token)):
        with pytest.raises(ValueError, match="is no token") as caught:
            take()
        assert "SEC" not in str(caught.value)


def test_a_token_of_a_gateway_may_be_longer_than_one_of_the_scheduler() -> None:
    token = f"eyJ0eXAi.{'a' * 2_000}.s+g/n-a_t~re=="
    assert token_of(token) == token


async def test_a_header_that_cannot_be_right_is_no_scheduler_that_is_away_and_is_not_quoted() -> None:
    async with door(200, b"") as address:
        with pytest.raises(Refused, match="the header authorization cannot be right") as refused:
            await open_socket(address, "/ws/node", "SEC\nRET")
    assert not refused.value.retryable
    assert "SEC" not in str(refused.value)


def test_everybody_says_which_library_he_is() -> None:
    assert version_of_us() == version("lingua-scheduler")
    assert headers_of(None) == {"user-agent": AGENT}
    assert headers_of("mine") == {"user-agent": AGENT, "authorization": "Bearer mine"}
    assert Node(["en"]).declaration_of().version == version("lingua-scheduler")


async def test_where_nobody_listens_another_try_may_help() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = Address.parse(f"http://127.0.0.1:{unheard.getsockname()[1]}")
        with pytest.raises(Unreachable, match="111") as nobody:
            await open_socket(address, "/ws/node")
        assert (nobody.value.code, nobody.value.retryable) == ("UNREACHABLE", True)
        with pytest.raises(Unreachable, match="111"):
            await fetch_audio(address, "audio-1", None, "node-1")


async def test_whoever_listens_and_says_nothing_is_not_waited_for_long() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = Address.parse(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await open_socket(address, "/ws/node", timeout_s=0.1)


async def test_audio_is_asked_of_the_scheduler_alone_wherever_it_sends_a_node() -> None:
    async with door(200, b"not ours") as other:
        for status in (301, 302, 303, 307, 308):
            async with door(status, b"", location=other.http("/v1/audio/audio-1")) as address:
                with pytest.raises(Unreachable, match=f"sends us to {other.http('/v1/audio/audio-1')}"):
                    await fetch_audio(address, "audio-1", "a-token", "node-1")


@asynccontextmanager
async def door(status: int, body: bytes, **headers: str) -> AsyncIterator[Address]:
    """Whatever is asked for, this is the answer."""

    def answer(_: ServerConnection, request: Request) -> Response:
        assert request.headers["user-agent"] == AGENT
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Response(status, "", Headers(named | {"content-length": str(len(body)), "connection": "close"}), body)

    async def nobody(_: ServerConnection) -> None:
        raise AssertionError("nobody gets here")

    async with serve(nobody, "127.0.0.1", 0, process_request=answer) as server:
        yield Address.parse(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")


async def refused_by(address: Address) -> Refused:
    with pytest.raises(Refused) as refused:
        await open_socket(address, "/ws/node", "a-token")
    return refused.value


async def test_a_scheduler_says_itself_whether_and_when_to_come_again() -> None:
    body = encode(refusal_body(refuse("SHUTTING_DOWN"), "trace-1", retry_after_ms=2_500))
    async with door(503, body, retry_after="3") as address:
        refused = await refused_by(address)
    assert (refused.code, refused.retryable, refused.retry_after) == ("SHUTTING_DOWN", True, 2.5)
    assert refused.trace_id == "trace-1"


@pytest.mark.parametrize(
    ("status", "headers", "code", "retryable", "retry_after"),
    [
        (400, {}, "REFUSED", False, None),
        (401, {}, "UNAUTHENTICATED", False, None),
        (403, {}, "FORBIDDEN", False, None),
        (404, {}, "NOT_FOUND", False, None),
        (429, {"retry_after": "7"}, "RATE_LIMITED", True, 7.0),
        (502, {}, "REFUSED", True, None),
        (503, {"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "REFUSED", True, None),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<h1>a gateway</h1>", b'{"error": "ours"}', b"\xff"])
async def test_of_anybody_else_the_status_counts(
    status: int, headers: dict[str, str], code: str, retryable: bool, retry_after: float | None, body: bytes
) -> None:
    async with door(status, body, **headers) as address:
        refused = await refused_by(address)
    assert (refused.code, refused.retryable, refused.retry_after) == (code, retryable, retry_after)
    assert f"({status})" in refused.detail


async def test_a_proxy_that_cannot_be_used_is_told_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("socks_proxy", "socks5://127.0.0.1:1")
    refused = await refused_by(Address.parse("http://192.0.2.1:1"))
    assert (refused.code, refused.retryable) == ("PROXY_UNUSABLE", False)


def test_only_the_error_that_announced_a_close_counts_for_it() -> None:
    goodbye = farewell(CloseCode.RESTART, after_ms=700)
    assert announced(goodbye, CloseCode.RESTART) is goodbye
    about_something_else = error_message(refuse("RATE_LIMITED"))
    for code in (CloseCode.RESTART, 1006, 1000, 4999, None):
        assert announced(about_something_else, code) is None
    assert announced(None, CloseCode.RESTART) is None
