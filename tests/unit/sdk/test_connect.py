"""Addresses, tokens, and when to try again."""

from __future__ import annotations

import random
import socket

import pytest

from lingua_scheduler.sdk._connect import Address, Backoff, Unreachable, fetch_audio, headers_of, open_socket, token_of


@pytest.mark.parametrize(
    ("url", "http", "ws"),
    [
        ("http://127.0.0.1:5010", "http://127.0.0.1:5010/x", "ws://127.0.0.1:5010/x"),
        ("https://lingua.example.com/", "https://lingua.example.com/x", "wss://lingua.example.com/x"),
        ("ws://host:1", "http://host:1/x", "ws://host:1/x"),
        ("wss://host/lingua", "https://host/lingua/x", "wss://host/lingua/x"),
        ("gpu-box:5010", "http://gpu-box:5010/x", "ws://gpu-box:5010/x"),
        ("http://[::1]:5010", "http://[::1]:5010/x", "ws://[::1]:5010/x"),
    ],
)
def test_any_scheme_names_the_same_door(url: str, http: str, ws: str) -> None:
    address = Address.parse(url)
    assert (address.http("/x"), address.ws("/x")) == (http, ws)


@pytest.mark.parametrize(
    "url", ["ftp://host", "http://", "http://host:port", "http://user:secret@host", "http://h?a=1", "http://h#a"]
)
def test_what_is_no_address_says_what_one_looks_like(url: str) -> None:
    with pytest.raises(ValueError, match=r"it looks like http://127\.0\.0\.1:5010"):
        Address.parse(url)


def test_without_a_url_the_environment_counts_and_then_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINGUA_URL", raising=False)
    monkeypatch.delenv("LINGUA_TOKEN", raising=False)
    assert str(Address.parse()) == "http://127.0.0.1:5010"
    assert token_of(None) is None
    monkeypatch.setenv("LINGUA_URL", "https://there")
    monkeypatch.setenv("LINGUA_TOKEN", "secret")
    assert str(Address.parse()) == "https://there"
    assert str(Address.parse("http://here")) == "http://here"
    assert (token_of(None), token_of("mine")) == ("secret", "mine")
    assert (headers_of("mine"), headers_of(None)) == ({"authorization": "Bearer mine"}, {})


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://127.0.0.1:1", True),
        ("http://[::1]", True),
        ("http://localhost", True),
        ("http://a.localhost", True),
        ("http://10.0.0.1", False),
        ("http://example.com", False),
    ],
)
def test_no_proxy_is_asked_for_this_machine(url: str, is_loopback: bool) -> None:
    assert Address.parse(url).is_loopback is is_loopback


def test_the_bound_doubles_up_to_the_most_and_begins_anew() -> None:
    backoff = Backoff(first_s=0.2, most_s=1.0, draw=lambda _, most: most)
    assert [round(backoff.next_s(), 3) for _ in range(5)] == [0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next_s() == 0.2
    assert backoff.next_s(hint_s=0.9) == 0.9
    assert backoff.next_s(hint_s=60.0) == 1.0
    for _ in range(2_000):
        backoff.next_s()
    assert backoff.next_s() == 1.0


def test_any_moment_up_to_the_bound_is_as_likely() -> None:
    """A thousand nodes that lost the same scheduler: no tenth of the time gets many more of them than another."""
    draw = random.Random(1).uniform
    tenths = [int(Backoff(first_s=1.0, draw=draw).next_s() * 10) for _ in range(1_000)]
    assert set(tenths) == set(range(10))
    assert max(tenths.count(tenth) for tenth in range(10)) < 150


async def test_where_nobody_listens_another_try_may_help() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = Address.parse(f"http://127.0.0.1:{unheard.getsockname()[1]}")
        with pytest.raises(Unreachable, match="111"):
            await open_socket(address, "/ws/node")
        with pytest.raises(Unreachable, match="111"):
            await fetch_audio(address, "audio-1", None, "node-1")
