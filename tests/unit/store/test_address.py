# ruff: noqa: S106
from __future__ import annotations

import pytest

from lingua_scheduler.core.errors import EngineUnfit
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
        ("redis+sentinel://engine:26379/main", r"^Sentinel \(redis\+sentinel://\) is not served yet; served are"),
        ("redis+cluster://one:7000", r"^Cluster .* is not served yet; .* redis://.* rediss://.* unix://.* embedded"),
        ("redis://", "needs a host"),
        ("redis://engine/zero", "is a number"),
        ("redis://engine/-1", "is a number"),
        ("redis://engine:seven", "port is a number"),
        ("redis://engine:65536", "port is a number"),
        ("redis://engine?timeout=3", "has no parameters"),
        ("redis://[::1", "brackets"),
        ("redis://ops@engine", "without a password"),
        ("unix://run/engine.sock", "three slashes"),
        ("unix:///run/s?timeout=3", "no parameter but db"),
        ("unix:///" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_any_other_url_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(EngineUnfit, match=why):
        parse_address(url)


@pytest.mark.parametrize(
    "password", ["zq/zq", "12/zq", "zq#zq", "zq?zq", "zq@zq", "zq:zq", "[zq", "[zq]", "zq\u2100zq", "zq/zq?db=zq"]
)
@pytest.mark.parametrize("rest", ["engine:6379/0", "/run/s"])
def test_no_piece_of_a_password_that_was_not_escaped_is_shown(password: str, rest: str) -> None:
    scheme = "unix" if rest.startswith("/") else "redis"
    try:
        shown = str(parse_address(f"{scheme}://ops:{password}@{rest}"))
    except EngineUnfit as error:
        shown = str(error)
    assert "zq" not in shown


def test_an_address_is_shown_without_its_credentials() -> None:
    address = parse_address("rediss://ops:hidden@engine:7000/3")
    assert str(address) == "rediss://engine:7000/3"
    assert "hidden" not in repr(address)
    assert str(parse_address("redis://[::1]")) == "redis://[::1]:6379/0"
    assert str(parse_address("unix://:hidden@/run/s")) == "unix:///run/s"
