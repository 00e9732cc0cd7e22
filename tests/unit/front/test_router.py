from __future__ import annotations

import pytest

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.front.router import Router, read_query, split_query
from lingua_scheduler.front.trace import Trace
from lingua_scheduler.front.web import Query, Reply, Route


async def handle(*_: object) -> Reply:
    return Reply(b"")


def route(method: str, path: str) -> Route:
    return Route(method, path, "", handle, "")


ROUTER = Router(
    [
        route("GET", "/v1/nodes"),
        route("GET", "/v1/nodes/{id}"),
        route("POST", "/v1/nodes/{id}/drain"),
        route("POST", "/v1/nodes/{id}/{what}"),
        route("GET", "/v1/pools/{src}/{tgt}"),
        route("DELETE", "/v1/nodes/{id}"),
        route("GET", "/v1/nodes/self"),
    ]
)


@pytest.mark.parametrize(
    ("path", "method", "pattern", "named"),
    [
        ("/v1/nodes", "GET", "/v1/nodes", {}),
        ("/v1/nodes/a.b", "GET", "/v1/nodes/{id}", {"id": "a.b"}),
        ("/v1/nodes/a.b", "DELETE", "/v1/nodes/{id}", {"id": "a.b"}),
        ("/v1/nodes/self", "GET", "/v1/nodes/self", {}),
        ("/v1/nodes/a/drain", "POST", "/v1/nodes/{id}/drain", {"id": "a"}),
        ("/v1/nodes/a/other", "POST", "/v1/nodes/{id}/{what}", {"id": "a", "what": "other"}),
        ("/v1/pools/en/zh", "GET", "/v1/pools/{src}/{tgt}", {"src": "en", "tgt": "zh"}),
    ],
)
def test_a_path_means_one_route(path: str, method: str, pattern: str, named: dict[str, str]) -> None:
    found = ROUTER.find(path)
    assert found is not None
    assert found.by_method[method].path == pattern
    assert found.named == named


@pytest.mark.parametrize("path", ["", "/", "/v1/nodes/", "/v1/nodes//drain", "/v1", "v1/nodes", "/v1/nodes/a/b/c"])
def test_other_paths_mean_none(path: str) -> None:
    assert ROUTER.find(path) is None


def test_a_path_knows_what_it_takes() -> None:
    found = ROUTER.find("/v1/nodes/x")
    assert found is not None
    assert found.methods == ["DELETE", "GET", "HEAD", "OPTIONS"]


def test_two_routes_for_the_same_are_a_mistake() -> None:
    for path in ("/a", "/a/{b}"):
        with pytest.raises(ValueError, match="two routes for GET"):
            Router([route("GET", path), route("GET", path)])


def test_parameters_are_read_as_what_they_are() -> None:
    known = (Query("n", "", int, least=-5, most=10), Query("b", "", bool), Query("s", "", required=True))
    assert read_query(known, {"n": "-05", "b": "No", "s": "", "other": "x"}) == {"n": "-5", "b": "false", "s": ""}
    for given in ({"s": "x", "n": "--5"}, {"s": "x", "n": "٣"}, {"s": "x", "n": "11"}, {"s": "x", "b": ""}, {"n": "1"}):
        with pytest.raises(Invalid):
            read_query(known, given)


def test_a_trace_goes_on_or_begins() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    trace = Trace.of(parent)
    assert trace.id == "0af7651916cd43dd8448eb211c80319c"
    assert trace.parent[:36] == parent[:36]
    assert Trace.of(trace.parent) == trace
    assert Trace.of(None).id != Trace.of(None).id
    assert Trace.of("cc" + parent[2:] + "-what-comes-later").id == trace.id


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a=1&b=x=y&a=2", {"a": "2", "b": "x=y"}),
        ("a", {"a": ""}),
        ("a=%20b+c", {"a": " b c"}),
        ("%61=1", {"a": "1"}),
    ],
)
def test_parameters_are_told_apart(text: str, given: dict[str, str]) -> None:
    assert split_query(text) == given


@pytest.mark.parametrize("one", ["a=1", "a=%31"])
def test_there_may_be_a_hundred_parameters(one: str) -> None:
    assert split_query("&".join([one] * 100)) == {"a": "1"}
    with pytest.raises(Invalid, match="too many"):
        split_query("&".join([one] * 101))
