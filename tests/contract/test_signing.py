"""Signing in at a page by a link that opens once, and what a browser may do then."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from lingua_scheduler.app import ROUTES
from tests.support.house import House, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

OPS = "operator-token-1"
FLAGS: dict[str, Any] = {
    "auth.admin_tokens": (f"ops:{OPS}",),
    "auth.session_tokens": ("caller:caller-one-token",),
    "auth.nodes": "open",
}
NODE = {"node_id": "n1", "semantic_langs": ["en", "zh"]}


@pytest.fixture
async def guarded(server: Server) -> AsyncIterator[House]:
    """A house with tokens, and a node in it."""
    async with House(server.url, **FLAGS).open() as house:
        await house.post("/v1/node/register", NODE)
        yield house


class Browser:
    """Keeps cookies, and says which page calls, as browsers do."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.http = httpx2.AsyncClient(base_url=house.url, timeout=20)
        self.csrf = ""

    async def call(self, method: str, path: str, message: Any = None, **headers: str) -> httpx2.Response:
        """As a page of ours calls."""
        own = {"origin": self.house.url} | ({"x-lingua-csrf": self.csrf} if self.csrf else {})
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        headers = {name: value for name, value in (own | said).items() if value}
        return await self.http.request(method, path, json=message, headers=headers)

    async def sign_in(self, *, read_only: bool = False) -> httpx2.Response:
        """By a new link."""
        answer = await self.call("POST", "/api/v1/sign-in", {"link": await link_of(self.house, read_only=read_only)})
        assert answer.status_code == 200, answer.text
        self.csrf = answer.json()["csrf"]
        return answer


@pytest.fixture
async def browser(guarded: House) -> AsyncIterator[Browser]:
    """Somebody who has not signed in."""
    browser = Browser(guarded)
    async with browser.http:
        yield browser


async def link_of(house: House, *, read_only: bool = False) -> str:
    headers = {"authorization": f"Bearer {OPS}"}
    answer = await house.http.post("/api/v1/link", json={"read_only": read_only}, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["path"]).partition("#")[2]


def refusal_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


async def test_whoever_has_signed_in_sees_and_does_what_an_operator_may(browser: Browser) -> None:
    assert refusal_of(await browser.call("GET", "/v1/nodes")) == (401, "UNAUTHENTICATED")
    answer = await browser.sign_in()
    kept = answer.headers["set-cookie"]
    assert kept.startswith("lingua_seat=")
    flags = {flag.strip() for flag in kept.split(";")[1:]}
    assert flags == {"Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"}
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {"name": "ops", "role": "admin", "signed_in": True, "csrf": browser.csrf}
    assert (await browser.call("GET", "/api/v1/me")).json() == answer.json()
    assert [node["node_id"] for node in (await browser.call("GET", "/v1/nodes")).json()["nodes"]] == ["n1"]
    assert (await browser.call("POST", "/v1/nodes/n1/drain")).json()["intent"] == "draining"
    # And its pages, which need no token any more.
    for page in ("/playground", "/docs", "/openapi.json"):
        assert (await browser.http.get(page)).status_code == 200


async def test_a_link_opens_once_and_says_so(browser: Browser) -> None:
    link = await link_of(browser.house)
    assert (await browser.call("POST", "/api/v1/sign-in", {"link": link})).status_code == 200
    assert refusal_of(await browser.call("POST", "/api/v1/sign-in", {"link": link})) == (410, "LINK_GONE")
    assert refusal_of(await browser.call("POST", "/api/v1/sign-in", {"link": "x" * 43})) == (410, "LINK_GONE")
    assert refusal_of(await browser.call("POST", "/api/v1/sign-in", {"link": ""})) == (400, "INVALID_MESSAGE")


async def test_whoever_tries_links_is_slowed_down_and_is_told_of_once_a_minute(browser: Browser) -> None:
    codes = [refusal_of(await browser.call("POST", "/api/v1/sign-in", {"link": "x"})) for _ in range(30)]
    assert codes[0] == (410, "LINK_GONE")
    assert (429, "RATE_LIMITED") in codes
    headers = {"authorization": f"Bearer {OPS}"}
    await browser.house.http.post("/v1/nodes/n1/drain", headers=headers)
    kinds: list[str] = []

    async def is_told() -> bool:
        events = (await browser.house.http.get("/api/v1/events", headers=headers)).json()["events"]
        kinds[:] = [event["kind"] for event in events]
        return "admin_drain" in kinds

    await eventually(is_told)
    assert kinds.count("admin_sign_in") == 1


async def test_over_tls_the_cookie_goes_back_by_nothing_else(browser: Browser) -> None:
    https = browser.house.url.replace("http:", "https:")
    answer = await browser.call("POST", "/api/v1/sign-in", {"link": await link_of(browser.house)}, origin=https)
    assert answer.headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize("origin", ["", "http://127.0.0.1:1", "http://localhost:3000", "https://evil.example", "null"])
async def test_only_a_page_of_this_server_signs_in(browser: Browser, origin: str) -> None:
    link = await link_of(browser.house)
    answer = await browser.call("POST", "/api/v1/sign-in", {"link": link}, origin=origin)
    assert refusal_of(answer) == (403, "FORBIDDEN")
    assert "set-cookie" not in answer.headers
    # It was not used up by that.
    assert (await browser.call("POST", "/api/v1/sign-in", {"link": link})).status_code == 200


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"origin": ""}, "only from a page of this server"),
        ({"origin": "http://127.0.0.1:1"}, "only from a page of this server"),
        ({"origin": "https://evil.example"}, "allowed_origins"),
        ({"x_lingua_csrf": ""}, "x-lingua-csrf"),
        ({"x_lingua_csrf": "0" * 64}, "x-lingua-csrf"),
    ],
)
async def test_what_changes_anything_comes_from_a_page_of_ours_and_brings_its_word(
    browser: Browser, headers: dict[str, str], why: str
) -> None:
    await browser.sign_in()
    for method, path in (("POST", "/v1/nodes/n1/drain"), ("DELETE", "/v1/dlq/1-0.x")):
        answer = await browser.call(method, path, **headers)
        assert refusal_of(answer) == (403, "FORBIDDEN")
        assert why in answer.json()["detail"]
    assert (await browser.call("GET", "/v1/nodes/n1")).json()["intent"] == "active"


async def test_a_page_of_another_origin_reads_nothing_with_the_cookie(browser: Browser) -> None:
    await browser.sign_in()
    # Another port of this machine: its pages may call, but not as whoever is signed in here.
    answer = await browser.call("GET", "/v1/nodes", origin="http://127.0.0.1:1")
    assert refusal_of(answer) == (403, "FORBIDDEN")
    assert "access-control-allow-credentials" not in answer.headers


def _examples() -> list[tuple[str, str]]:
    braces = {"{node_id}": "n1", "{letter}": "1-0.x", "{src}/{tgt}": "en/zh", "{job_id}": "c0.x", "{ref}": "x"}
    found = []
    for route in ROUTES:
        path = route.path
        for name, value in braces.items():
            path = path.replace(name, value)
        if route.scope in {"admin", "session"} and route.method != "GET" and not route.for_readers:
            found.append((route.method, path))
    return found


async def test_whoever_may_only_look_changes_nothing_on_any_route(browser: Browser) -> None:
    answer = await browser.sign_in(read_only=True)
    assert answer.json()["role"] == "read-only"
    assert (await browser.call("GET", "/v1/nodes")).status_code == 200
    assert (await browser.call("GET", "/playground")).status_code == 200
    examples = _examples()
    assert len(examples) >= 10
    for method, path in examples:
        refused = await browser.call(method, path, {})
        assert refusal_of(refused) == (403, "FORBIDDEN"), (method, path)
        assert "may only look" in refused.json()["detail"]
    assert (await browser.call("GET", "/v1/nodes/n1")).json()["intent"] == "active"
    assert (await browser.call("POST", "/api/v1/sign-out")).status_code == 200


async def test_whoever_signs_out_is_nobody_even_if_his_cookie_was_kept(browser: Browser) -> None:
    await browser.sign_in()
    kept = dict(browser.http.cookies)
    answer = await browser.call("POST", "/api/v1/sign-out")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    browser.http.cookies.update(kept)
    assert refusal_of(await browser.call("GET", "/v1/nodes")) == (401, "UNAUTHENTICATED")


async def test_a_cookie_that_is_not_right_opens_nothing(browser: Browser) -> None:
    await browser.sign_in()
    place, _, secret = browser.http.cookies["lingua_seat"].partition(".")
    wrong = [
        "",
        "x",
        place,
        f"{place}.",
        f"{place}.{secret}x",
        f"{'0' * 64}.{secret}",
        "x" * 5_000,
        f"{{{place}.a",
    ]
    browser.http.cookies.clear()
    for value in wrong:
        answer = await browser.http.get("/v1/nodes", headers={"cookie": f"lingua_seat={value}"})
        assert refusal_of(answer) == (401, "UNAUTHENTICATED"), value
    good = {"cookie": f"a=b; lingua_seat={place}.{secret}; c=d"}
    assert (await browser.http.get("/v1/nodes", headers=good)).status_code == 200
    # Whoever shows a token is who that says.
    answer = await browser.http.get("/v1/nodes", headers=good | {"authorization": "Bearer caller-one-token"})
    assert refusal_of(answer) == (403, "FORBIDDEN")
    answer = await browser.http.get("/v1/nodes", headers=good | {"authorization": "Bearer nobody-knows-it"})
    assert refusal_of(answer) == (401, "UNAUTHENTICATED")


async def test_a_seat_opens_no_door_of_nodes(server: Server) -> None:
    flags = FLAGS | {"auth.nodes": "token", "auth.node_tokens": ("nodes-of-berlin-1",)}
    async with House(server.url, **flags).open() as house:
        browser = Browser(house)
        async with browser.http:
            await browser.sign_in()
            assert refusal_of(await browser.call("POST", "/v1/node/register", NODE)) == (403, "FORBIDDEN")


async def test_every_instance_knows_who_is_signed_in(server: Server) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(House(server.url, **FLAGS).open())
        flags = FLAGS | {"engine.key_prefix": first.settings.engine.key_prefix}
        second = await stack.enter_async_context(House(server.url, **flags).open())
        browser = Browser(first)
        await stack.enter_async_context(browser.http)
        await browser.sign_in()
        cookie = {"cookie": f"lingua_seat={browser.http.cookies['lingua_seat']}"}
        assert (await second.http.get("/v1/nodes", headers=cookie)).status_code == 200
        # A third has another operator: the seat of one who is none any more counts for nothing.
        flags |= {"auth.admin_tokens": ("others:operator-token-2",)}
        third = await stack.enter_async_context(House(server.url, **flags).open())
        assert refusal_of(await third.http.get("/v1/nodes", headers=cookie)) == (401, "UNAUTHENTICATED")


async def test_a_person_who_opens_a_page_is_shown_where_to_sign_in(browser: Browser) -> None:
    answer = await browser.http.get("/playground?lang=zh", headers={"accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "sign-in?next=playground%3Flang%3Dzh")
    answer = await browser.http.get("/playground", headers={"accept": "text/html"})
    assert answer.headers["location"] == "sign-in?next=playground"
    page = await browser.http.get("/sign-in")
    assert page.status_code == 200
    assert "content-security-policy" in page.headers
    # A program is told why.
    assert refusal_of(await browser.http.get("/playground")) == (401, "UNAUTHENTICATED")
    wrong = {"accept": "text/html", "authorization": "Bearer nobody-knows-it"}
    assert refusal_of(await browser.http.get("/playground", headers=wrong)) == (401, "UNAUTHENTICATED")


async def test_who_signed_in_and_out_and_had_links_made_is_told(browser: Browser) -> None:
    await browser.sign_in()
    await browser.call("POST", "/api/v1/sign-in", {"link": "x"})
    await browser.call("POST", "/v1/nodes/n1/drain")
    await browser.call("POST", "/api/v1/sign-out")
    headers = {"authorization": f"Bearer {OPS}"}
    while True:
        text = (await browser.house.http.get("/api/v1/events", headers=headers)).text
        told = [event for event in json.loads(text)["events"] if event["kind"].startswith("admin_")]
        if len(told) == 5:
            break
    found = [(event["kind"].removeprefix("admin_"), event["who"], event["outcome"]) for event in told]
    assert found == [
        ("link", "ops", "ok"),
        ("sign_in", "ops", "ok"),
        ("sign_in", "", "LINK_GONE"),
        ("drain", "ops", "ok"),
        ("sign_out", "ops", "ok"),
    ]
    assert told[1]["detail"] == "admin"
    assert browser.csrf not in text


async def test_where_nobody_is_told_apart_nobody_has_to_sign_in(house: House) -> None:
    me = await house.get("/api/v1/me")
    assert me == {"name": "", "role": "admin", "signed_in": False}


async def try_socket(browser: Browser, origin: str | None) -> tuple[int, str]:
    url = browser.house.url.replace("http", "ws") + "/ws/session"
    cookie = {"cookie": f"lingua_seat={browser.http.cookies['lingua_seat']}"}
    async with connect(url, proxy=None, origin=origin, additional_headers=cookie) as socket:  # type: ignore[arg-type]
        try:
            await socket.send('{"type": "session_init", "src_lang": "en", "tgt_lang": "zh", "platform": "web"}')
            return 0, json.loads(await socket.recv())["type"]
        except ConnectionClosed:
            return socket.close_code or 0, socket.close_reason or ""


async def test_a_page_of_ours_may_open_a_session_with_the_cookie_and_no_other_page(browser: Browser) -> None:
    await browser.sign_in()
    assert (await try_socket(browser, browser.house.url))[1] == "session_init_ack"
    for origin in (None, "http://127.0.0.1:1"):
        assert (await try_socket(browser, origin))[1] != "session_init_ack"


async def test_whoever_may_only_look_opens_no_session(browser: Browser) -> None:
    await browser.sign_in(read_only=True)
    assert (await try_socket(browser, browser.house.url))[1] != "session_init_ack"
