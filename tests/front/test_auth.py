"""Tokens, doors and origins over real requests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.front.routes import ROUTES
from tests.support.doors import open_door

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.doors import Open
    from tests.support.servers import Server

NODE, SESSION, ADMIN = "node-token-0123456789", "session-token-0123456789", "admin-token-0123456789"
TOKENS = {
    "auth__node_tokens": f"fleet:{NODE}",
    "auth__session_tokens": f"app:{SESSION}, app:{SESSION}-new",
    "auth__admin_tokens": ADMIN,
}
JOB = {"job_id": "c0.1"}


@asynccontextmanager
async def client_of(server: Server, **flags: Any) -> AsyncIterator[tuple[httpx2.AsyncClient, Open]]:
    async with (
        open_door(server.url, ROUTES, server__drain_ms=50, **flags) as door,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{door.port}") as client,
    ):
        yield client, door


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_without_tokens_every_door_is_open_on_loopback_pages_included(server: Server) -> None:
    async with client_of(server) as (client, _):
        seen = (await client.get("/v1/seen/x")).json()
        assert (seen["who"], seen["scopes"]) == ("", ["admin", "metrics", "node", "session"])
        assert (await client.post("/v1/seen", json=JOB)).status_code == 200
        assert (await client.get("/docs")).status_code == 200


async def test_with_tokens_every_door_asks_for_one(server: Server) -> None:
    async with client_of(server, **TOKENS) as (client, _):
        for path in ("/v1/seen/x", "/docs", "/openapi.json", "/asyncapi.json"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"]) == (401, "UNAUTHENTICATED")
            assert answer.headers["www-authenticate"] == "Bearer"
        for path in ("/health", "/livez", "/readyz"):
            assert (await client.get(path)).status_code == 200


async def test_a_token_opens_the_doors_of_its_scope_and_several_are_valid_at_once(server: Server) -> None:
    async with client_of(server, **TOKENS) as (client, _):
        for token in (SESSION, f"{SESSION}-new"):
            seen = await client.post("/v1/seen", json=JOB, headers=bearer(token))
            assert seen.json()["who"] == "app"
        assert (await client.post("/v1/node", json=JOB, headers=bearer(NODE))).json()["who"] == "fleet"
        assert (await client.get("/docs", headers=bearer(NODE))).status_code == 200
        for path, token in (("/v1/node", SESSION), ("/v1/seen", NODE), ("/v1/node", ADMIN)):
            answer = await client.post(path, json=JOB, headers=bearer(token))
            assert (answer.status_code, answer.json()["error"]) == (403, "FORBIDDEN")
        assert (await client.post("/v1/seen", json=JOB, headers=bearer(ADMIN))).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        bearer("x"),
        {"Authorization": "Bearer"},
        bearer(SESSION[:-1]),
        bearer(SESSION + "0"),
        {"Authorization": SESSION},
        {"Authorization": f"Basic {SESSION}"},
        {"X-Token": SESSION},
        {"Cookie": f"token={SESSION}"},
    ],
)
async def test_what_is_no_token_opens_nothing(server: Server, headers: dict[str, str]) -> None:
    async with client_of(server, **TOKENS) as (client, _):
        answer = await client.post(f"/v1/seen?token={SESSION}&access_token={SESSION}", json=JOB, headers=headers)
        assert answer.status_code == 401
        assert SESSION not in answer.text


async def test_a_body_is_not_read_before_its_sender_is_known(server: Server) -> None:
    async with client_of(server, **TOKENS) as (client, _):
        assert (await client.post("/v1/seen", content=b"x" * 100_000)).status_code == 401


async def test_field_nodes_without_tokens_can_be_let_in_while_the_rest_stays_closed(server: Server) -> None:
    for rule in ("open", "10.0.0.0/8, 127.0.0.0/8"):
        async with client_of(server, auth__nodes=rule, **TOKENS) as (client, _):
            seen = (await client.post("/v1/node", json=JOB)).json()
            assert (seen["who"], seen["scopes"]) == ("", ["node"])
            assert (await client.post("/v1/node", json=JOB, headers=bearer(NODE))).json()["who"] == "fleet"
            assert (await client.post("/v1/seen", json=JOB)).status_code == 401
            assert (await client.get("/v1/seen/x")).status_code == 401
    async with client_of(server, auth__nodes="10.0.0.0/8", **TOKENS) as (client, _):
        spoofed = {"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=10.0.0.1"}
        assert (await client.post("/v1/node", json=JOB, headers=spoofed)).status_code == 401
        assert (await client.post("/v1/node", json=JOB, headers=bearer(NODE))).status_code == 200


async def test_a_page_from_elsewhere_is_not_heard(server: Server) -> None:
    async with client_of(server) as (client, door):
        for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
            answer = await client.post("/v1/seen", json=JOB, headers={"Origin": origin})
            assert (answer.status_code, answer.json()["error"]) == (403, "FORBIDDEN")
            assert "access-control-allow-origin" not in answer.headers
        for origin in ("http://localhost:3000", f"http://127.0.0.1:{door.port}", "http://[::1]:80"):
            answer = await client.post("/v1/seen", json=JOB, headers={"Origin": origin})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == origin


async def test_a_name_that_somebody_else_made_point_here_is_not_heard(server: Server) -> None:
    async with client_of(server) as (client, _):
        for host in ("rebound.example", "rebound.example:5010", "localhost.rebound.example", "192.168.0.7", ""):
            answer = await client.get("/v1/seen/x", headers={"Host": host})
            assert (answer.status_code, answer.json()["error"]) == (403, "FORBIDDEN")
            assert (await client.get("/livez", headers={"Host": host})).status_code == 200
        for host in ("localhost", "LOCALHOST:1", "[::1]:5010", "app.localhost"):
            assert (await client.get("/v1/seen/x", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/nowhere"), ("DELETE", "/v1/seen"), ("OPTIONS", "/v1/seen"), ("GET", "/ws/node")]
)
async def test_nothing_is_said_to_them_whatever_they_ask(server: Server, method: str, path: str) -> None:
    async with client_of(server) as (client, _):
        for headers in ({"Origin": "https://evil.example"}, {"Host": "rebound.example"}):
            answer = await client.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (403, "FORBIDDEN")
            assert "allow" not in answer.headers
        assert (await client.request(method, path)).status_code != 403


async def test_an_allowed_page_is_told_what_it_may_do(server: Server) -> None:
    page = "https://app.example.com"
    async with client_of(server, server__allowed_origins=page) as (client, _):
        asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
        answer = await client.options("/v1/seen", headers=asked)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == page
        assert answer.headers["access-control-allow-methods"] == "OPTIONS, POST"
        allowed = answer.headers["access-control-allow-headers"]
        assert {*allowed.split(", ")} == {"authorization", "content-type", "prefer", "traceparent"}
        said = await client.post("/v1/seen", json=JOB, headers={"Origin": page})
        assert said.status_code == 200
        assert "preference-applied" in said.headers["access-control-expose-headers"]
        other = await client.options("/v1/seen", headers=asked | {"Origin": "https://other.example.com"})
        assert "access-control-allow-origin" not in other.headers
        assert "access-control-allow-methods" not in other.headers
