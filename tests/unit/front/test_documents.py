from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from lingua_scheduler.app import ROUTES
from lingua_scheduler.core.refusal import CODES
from lingua_scheduler.front.openapi import asyncapi, openapi
from lingua_scheduler.protocol.frames import (
    LAYOUT,
    AudioFrame,
    FinalFrame,
    Frame,
    PingFrame,
    PongFrame,
    encode_frame,
)
from lingua_scheduler.protocol.live import read_live
from lingua_scheduler.protocol.node import read_from_node, read_to_node
from lingua_scheduler.protocol.session import read_from_client, read_to_client
from tests.front.routes import ROUTES as SHOWN

DOCUMENTS = {"openapi": openapi(ROUTES), "shown": openapi(SHOWN), "asyncapi": asyncapi()}


def parts(document: Any) -> list[Any]:
    """Every object of a document."""
    if isinstance(document, dict):
        return [document, *(part for value in document.values() for part in parts(value))]
    return [part for one in document for part in parts(one)] if isinstance(document, list) else []


def resolve(document: Any, ref: str) -> Any:
    assert ref.startswith("#/")
    for name in ref[2:].split("/"):
        document = document[name]
    return document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_reference_leads_somewhere(name: str) -> None:
    document = DOCUMENTS[name]
    refs = [part["$ref"] for part in parts(document) if isinstance(part.get("$ref"), str)]
    assert refs
    for ref in refs:
        assert resolve(document, ref)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_schema_is_one(name: str) -> None:
    for schema in DOCUMENTS[name]["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_schemathesis_can_read_the_document() -> None:
    read = schemathesis.openapi.from_dict(DOCUMENTS["shown"])
    assert len(list(read.get_all_operations())) == len(SHOWN)
    read.validate()


def test_every_route_is_told_with_its_scope_body_and_refusals() -> None:
    paths = DOCUMENTS["shown"]["paths"]
    assert sum(len(methods) for methods in paths.values()) == len(SHOWN)
    seen = paths["/v1/seen"]["post"]
    assert seen["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CancelRequest"
    }
    assert seen["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Seen"}
    assert seen["security"] == [{"token": ["session"]}, {}]
    assert set(seen["responses"]) == {"200", "400", "401", "403", "408", "413", "431", "500", "503"}
    assert "security" not in paths["/livez"]["get"]
    assert "retry-after" in paths["/v1/full"]["get"]["responses"]["429"]["headers"]
    parameters = {one["name"]: one for one in paths["/v1/seen/{id}"]["get"]["parameters"]}
    assert parameters["id"]["in"] == "path"
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert "application/octet-stream" in paths["/v1/raw"]["post"]["requestBody"]["content"]


def test_only_what_asks_the_engine_may_say_that_it_is_away_and_only_writes_that_they_are_unknown() -> None:
    paths = DOCUMENTS["openapi"]["paths"]
    for path in ("/health", "/livez", "/docs", "/openapi.json", "/asyncapi.json"):
        assert "503" not in paths[path]["get"]["responses"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            told = operation["responses"].get("503", {"description": ""})["description"]
            assert ("OUTCOME_UNKNOWN" in told) == (method in {"post", "delete"}), path


def test_the_layout_of_every_frame_is_told() -> None:
    messages = DOCUMENTS["asyncapi"]["components"]["messages"]
    assert "u8 0x02, u8 session-id length, u32 seq" in messages["FinalFrame"]["summary"]
    assert messages["AudioFrame"]["contentType"] == "application/octet-stream"
    frames: list[Frame] = [AudioFrame("s1", 1, 2, False, b"a"), FinalFrame("s1", 1, 2), PingFrame(), PongFrame()]
    assert {type(frame) for frame in frames} == set(LAYOUT)
    for frame in frames:
        assert f"u8 0x{encode_frame(frame)[0]:02x}" in LAYOUT[type(frame)]


def test_operations_have_names_of_their_own() -> None:
    for name in ("openapi", "shown"):
        names = [part["operationId"] for part in parts(DOCUMENTS[name]) if "operationId" in part]
        assert len(names) == len(set(names))


def test_no_route_refuses_with_a_code_that_nobody_knows() -> None:
    for route in ROUTES:
        assert set(route.refuses) <= set(CODES)
        assert route.reads is None or not route.reads_raw


def test_every_message_of_the_sockets_is_told() -> None:
    document = DOCUMENTS["asyncapi"]
    told = {
        name: {resolve(document, resolve(document, one["$ref"])["$ref"])["name"] for one in operation["messages"]}
        for name, operation in document["operations"].items()
    }
    assert told == {
        "receive_node": set(read_from_node.kinds),
        "send_node": set(read_to_node.kinds) | {"AudioFrame"},
        "receive_session": set(read_from_client.kinds) | {"AudioFrame", "FinalFrame", "PingFrame", "PongFrame"},
        "send_session": set(read_to_client.kinds) | {"PongFrame"},
        "send_live": set(read_live.kinds),
    }
    register = document["components"]["schemas"]["NodeRegister"]
    assert register["properties"]["type"] == {"enum": ["node_register"]}
