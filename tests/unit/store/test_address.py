# ruff: noqa: S106
from __future__ import annotations

import pytest

from lingua_scheduler.store.address import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://engine", Address(host="engine")),
        ("redis://engine:7000/3", Address(host="engine", port=7000, database=3)),
        ("redis://:s%40crt@engine", Address(host="engine", password="s@crt")),
        (
            "rediss://ops:pw@[::1]:7000",
            Address(host="::1", port=7000, tls=True, username="ops", password="pw"),
        ),
        ("unix:///run/engine.sock", Address(path="/run/engine.sock")),
        ("unix://ops:pw@/run/s?db=2", Address(path="/run/s", username="ops", password="pw", database=2)),
    ],
)
def test_an_engines_url_says_where_it_listens(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://engine", "begins with redis://"),
        ("engine:6379", "begins with redis://"),
        ("redis+sentinel://engine", "begins with redis://"),
        ("redis://", "needs a host"),
        ("redis://engine/zero", "is a number"),
        ("redis://engine/-1", "is a number"),
        ("redis://engine:seven", "(?i)port"),
        ("redis://engine?timeout=3", "has no parameters"),
        ("redis://ops@engine", "without a password"),
        ("unix://run/engine.sock", "three slashes"),
        ("unix:///run/s?timeout=3", "no parameter but db"),
        ("unix:///" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_any_other_url_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_address(url)


def test_an_address_is_shown_without_its_credentials() -> None:
    address = parse_address("rediss://ops:hidden@engine:7000/3")
    assert str(address) == "rediss://engine:7000/3"
    assert "hidden" not in repr(address)
    assert str(parse_address("redis://[::1]")) == "redis://[::1]:6379/0"
    assert str(parse_address("unix://:hidden@/run/s")) == "unix:///run/s"
