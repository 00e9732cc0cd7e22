"""One address, whichever way it is written."""

from __future__ import annotations

import pytest

from lingua_scheduler.sdk import Client, Node
from lingua_scheduler.sdk._address import Address, address_of


@pytest.mark.parametrize(
    ("url", "http", "ws"),
    [
        ("http://127.0.0.1:5010", "http://127.0.0.1:5010/x", "ws://127.0.0.1:5010/x"),
        ("https://lingua.example.com/", "https://lingua.example.com/x", "wss://lingua.example.com/x"),
        ("ws://host:1", "http://host:1/x", "ws://host:1/x"),
        ("WSS://host/lingua/", "https://host/lingua/x", "wss://host/lingua/x"),
        ("gpu-box:5010", "http://gpu-box:5010/x", "ws://gpu-box:5010/x"),
        ("http://[::1]:5010", "http://[::1]:5010/x", "ws://[::1]:5010/x"),
    ],
)
def test_any_scheme_names_the_same_door(url: str, http: str, ws: str) -> None:
    address = Address.parse(url)
    assert (address.http("/x"), address.ws("/x")) == (http, ws)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://host", "'ftp://host' is not .*: it begins with none of http, https, ws, wss"),
        ("", "it names no host"),
        ("http://", "it names no host"),
        ("http://:5010", "it names no host"),
        ("http://host:port", "its host or port cannot be read"),
        ("http://host:70000", "its host or port cannot be read"),
        ("http://[::1", "its host or port cannot be read"),
        ("http://h/base?a=1", "nothing may follow its path"),
        ("http://h#a", "nothing may follow its path"),
        ("http://a host", "there is a space in it"),
        (" http://host", "there is a space in it"),
    ],
)
def test_what_is_no_address_says_what_is_wrong_and_what_one_looks_like(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"{why}; it looks like http://127\.0\.0\.1:5010"):
        Address.parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@host",
        "http://hunter2@host",
        "http://me:hunt/er2@host",
        "http://h?token=hunter2",
        "http://me:hunter2@h:x",
    ],
)
def test_a_secret_in_an_address_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a scheduler") as told:
        Address.parse(url)
    assert "hunt" not in str(told.value)


def test_without_a_url_the_environment_counts_and_then_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINGUA_URL", raising=False)
    assert str(address_of(None)) == "http://127.0.0.1:5010"
    monkeypatch.setenv("LINGUA_URL", "https://there")
    assert str(address_of(None)) == "https://there"
    assert str(address_of("http://here")) == "http://here"


def test_a_wrong_address_is_told_on_the_line_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="it begins with none of"):
        Client("ftp://host")
    with pytest.raises(ValueError, match="it begins with none of"):
        Node(["en"], url="ftp://host")


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
