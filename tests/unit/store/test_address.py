# ruff: noqa: S106
from __future__ import annotations

import pytest

from lingua_scheduler.core.errors import EngineUnfit
from lingua_scheduler.store.address import Address, Cluster, Place, Sentinels, parse_address, parse_place


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
    assert parse_place(url) == address


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (
            "redis+sentinel://one,two:7000/main",
            Sentinels("main", (Address("one", 26379), Address("two", 7000)), Address()),
        ),
        (
            "rediss+sentinel://ops:p%40w@one,[::1]:7/main/3?sentinel_username=s&sentinel_password=o%26",
            Sentinels(
                "main",
                (
                    Address("one", 26379, tls=True, username="s", password="o&"),
                    Address("::1", 7, tls=True, username="s", password="o&"),
                ),
                Address(tls=True, username="ops", password="p@w", database=3),
            ),
        ),
        ("redis+cluster://one,two:7000", Cluster((Address("one"), Address("two", 7000)))),
        (
            "rediss+cluster://ops:pw@one:7000/",
            Cluster((Address("one", 7000, tls=True, username="ops", password="pw"),)),
        ),
    ],
)
def test_so_does_that_of_many_servers(url: str, place: Place) -> None:
    assert parse_place(url) == place


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://engine", "begins with redis://"),
        ("engine:6379", "begins with redis://"),
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
    with pytest.raises(EngineUnfit, match=why):
        parse_place(url)


@pytest.mark.parametrize("url", ["redis+sentinel://engine/main", "redis+cluster://engine"])
def test_one_server_is_not_many(url: str) -> None:
    with pytest.raises(EngineUnfit, match=r"redis://.* or unix://, or names many; served are .*redis\+cluster://"):
        parse_address(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+sentinel://one,two", "ends with the name of the primary"),
        ("redis+sentinel://one/main/zero", "is a number"),
        ("redis+sentinel://one/main?password=x", "no parameters but sentinel_username and sentinel_password"),
        ("redis+sentinel://one/main?sentinel_username=x", "user of the Sentinels without a password"),
        ("redis+sentinel://ops@one/main", "without a password"),
        ("redis+sentinel:///main", "needs a host"),
        ("redis+cluster://one,,two", "no comma without one"),
        ("redis+cluster://one:seven,two", "port is a number"),
        ("redis+cluster://one/0", "only one database"),
        ("redis+cluster://one?x=1", "no parameters"),
    ],
)
def test_what_is_wrong_with_that_of_many_is_said(url: str, why: str) -> None:
    with pytest.raises(EngineUnfit, match=why):
        parse_place(url)


@pytest.mark.parametrize(
    "password", ["zq/zq", "12/zq", "zq#zq", "zq?zq", "zq@zq", "zq:zq", "[zq", "[zq]", "zq\u2100zq", "zq/zq?db=zq"]
)
@pytest.mark.parametrize(
    ("scheme", "rest"),
    [
        ("redis", "engine:6379/0"),
        ("unix", "/run/s"),
        ("redis+cluster", "one:7000,two"),
        ("redis+sentinel", "one,two/main"),
    ],
)
def test_no_piece_of_a_password_that_was_not_escaped_is_shown(password: str, scheme: str, rest: str) -> None:
    try:
        shown = str(parse_place(f"{scheme}://ops:{password}@{rest}"))
    except EngineUnfit as error:
        shown = str(error)
    assert "zq" not in shown


def test_an_address_is_shown_without_its_credentials() -> None:
    address = parse_address("rediss://ops:hidden@engine:7000/3")
    assert str(address) == "rediss://engine:7000/3"
    assert "hidden" not in repr(address)
    assert str(parse_address("redis://[::1]")) == "redis://[::1]:6379/0"
    assert str(parse_address("unix://:hidden@/run/s")) == "unix:///run/s"
    many = "redis+sentinel://ops:hidden@one,[::1]/main?sentinel_password=hidden"
    assert str(parse_place(many)) == "redis+sentinel://one:26379,[::1]:26379/main"
    assert "hidden" not in repr(parse_place(many))
    assert str(parse_place("rediss+sentinel://one/main/3")) == "rediss+sentinel://one:26379/main/3"
    assert str(parse_place("rediss+cluster://ops:hidden@one,two:7")) == "rediss+cluster://one:6379,two:7"
