from __future__ import annotations

from typing import Any

import pytest

from lingua_scheduler.config import ConfigError, load
from lingua_scheduler.front.origins import Origins, host_of, is_loopback


def origins(**flags: Any) -> Origins:
    return Origins(load(env={}, flags={f"server.{key}": value for key, value in flags.items()}).settings.server)


PUBLIC: dict[str, Any] = {"host": "0.0.0.0", "allowed_origins": ["https://app.example.com"]}  # noqa: S104 - told apart


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:5010", True),
        ("localhost", True),
        ("lingua.localhost:80", True),
        ("[::1]:5010", True),
        ("LocalHost.", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("", False),
        (None, False),
    ],
)
def test_on_loopback_only_loopback_is_our_name(host: str | None, is_ours: bool) -> None:
    assert (origins().check(host, None) is None) == is_ours


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("10.0.0.1:5010", True),
        ("[fd00::1]:5010", True),
        ("localhost:5010", True),
        ("app.example.com", True),
        ("scheduler.internal:5010", False),
        ("evil.example", False),
    ],
)
def test_elsewhere_addresses_are_ours_and_the_names_that_are_listed(host: str, is_ours: bool) -> None:
    assert (origins(**PUBLIC).check(host, None) is None) == is_ours
    assert origins(**PUBLIC, allowed_hosts=["*"]).check(host, None) is None
    assert origins(**PUBLIC, allowed_hosts=["scheduler.internal", "evil.example"]).check(host, None) is None


@pytest.mark.parametrize(
    ("origin", "on_loopback", "elsewhere"),
    [
        ("http://localhost:3000", True, False),
        ("https://127.0.0.1", True, False),
        ("http://10.0.0.1:5010", False, True),
        ("https://10.0.0.1:5010", False, True),
        ("https://app.example.com", False, True),
        ("HTTPS://App.Example.com", False, True),
        ("https://app.example.com:444", False, False),
        ("http://app.example.com", False, False),
        ("https://app.example.com.evil.example", False, False),
        ("null", False, False),
        ("", False, False),
        ("file://localhost", False, False),
        ("http://localhost@evil.example", False, False),
    ],
)
def test_pages_of_loopback_may_call_on_loopback_and_allowed_ones_elsewhere(
    origin: str, on_loopback: bool, elsewhere: bool
) -> None:
    assert (origins().check("127.0.0.1:5010", origin) is None) == on_loopback
    assert (origins(**PUBLIC).check("10.0.0.1:5010", origin) is None) == elsewhere


def test_hosts_are_told_apart() -> None:
    assert [host_of(one) for one in ("A:1", "[::1]:2", "[::1]", "b.", "c")] == ["a", "::1", "::1", "b", "c"]
    assert [is_loopback(one) for one in ("127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::")] == [  # noqa: S104
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "origin", ["app.example.com", "https://app.example.com/", "https://a@b.example", "https://", "https://a:b", "*"]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.allowed_origins: an origin is written like"):
        origins(allowed_origins=[origin])


@pytest.mark.parametrize("host", ["https://a.example", "a.example:80", "A.example", "", "a b"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.allowed_hosts: a host is a name"):
        origins(allowed_hosts=[host])
