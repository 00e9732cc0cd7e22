"""The documents that tell programs what there is: OpenAPI for requests, AsyncAPI for sockets.

Both are made of what is served, so that they cannot say anything else.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lingua_scheduler.core.refusal import CODES
from lingua_scheduler.front.web import Query
from lingua_scheduler.protocol.errors import CLOSES, RefusalBody
from lingua_scheduler.protocol.fields import ID_PATTERN
from lingua_scheduler.protocol.frames import LAYOUT, AudioFrame, FinalFrame, PingFrame, PongFrame
from lingua_scheduler.protocol.live import read_live
from lingua_scheduler.protocol.node import read_from_node, read_to_node
from lingua_scheduler.protocol.session import read_from_client, read_to_client

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingua_scheduler.front.web import Route
    from lingua_scheduler.protocol.codec import Reader

_REFS: Final = "#/components/schemas/{name}"
_NAMES: Final = re.compile(r"{(\w+)}")
#: Python's `$` lets a line end through, and the patterns say so; that of JSON Schema does not.
_NO_LINE_END: Final = r"(?!\n)"
#: What any request may be refused with; with an engine behind it, that it only reads or also writes to; with a body;
#: with a scope.
_ANY: Final = ("HEADERS_TOO_LARGE", "INTERNAL")
_WITH_ENGINE: Final = ("SCHEDULER_DEPENDENCY_DOWN", "SHUTTING_DOWN")
_WITH_WRITES: Final = (*_WITH_ENGINE, "OUTCOME_UNKNOWN")
_WITH_BODY: Final = ("INVALID_MESSAGE", "PAYLOAD_TOO_LARGE", "REQUEST_TIMEOUT")
_WITH_SCOPE: Final = ("UNAUTHENTICATED", "FORBIDDEN")
_KINDS: Final = {str: "string", int: "integer", bool: "boolean"}


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    routes = tuple(routes)
    kinds: dict[type, None] = {RefusalBody: None}
    for route in routes:
        kinds |= dict.fromkeys(_body_kinds(route.reads)) | ({route.answers: None} if route.answers else {})
    refs, schemas = _schemas(kinds)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lingua Scheduler", "version": version("lingua-scheduler")},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "tags": [{"name": name} for name in dict.fromkeys(route.tag for route in routes if route.tag)],
    }


def _operation(route: Route, refs: dict[type, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *re.findall(r"\w+", route.path)]),
        "summary": route.summary,
        "responses": _responses(route, refs),
    }
    if about := getdoc(route.handle):
        said["description"] = about
    if route.tag:
        said["tags"] = [route.tag]
    if route.scope:
        # Where no tokens are configured, or the door is open, none is needed.
        said["security"] = [*({"token": [scope]} for scope in (route.scope, route.also) if scope), {}]
    parameters = [
        *map(_path_parameter, _NAMES.findall(route.path)),
        *map(_parameter, route.query),
        *(_parameter(header) | {"in": "header"} for header in (*route.headers, *(_IF_KEPT if route.is_kept else ()))),
    ]
    if parameters:
        said["parameters"] = parameters
    if route.reads is not None:
        schema = [refs[kind] for kind in _body_kinds(route.reads)]
        content = {"application/json": {"schema": schema[0] if len(schema) == 1 else {"anyOf": schema}}}
        said["requestBody"] = {"required": True, "content": content}
    elif route.reads_raw:
        said["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return said


def _responses(route: Route, refs: dict[type, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "It is done.", "headers": _HEADERS}
    good["content"] = {"application/json": {"schema": refs[route.answers]}} if route.answers else {"*/*": {}}
    said = {"200": good}
    if route.is_kept:
        good["headers"] = _HEADERS | _ETAG
        said["304"] = {"description": "You have it as it is.", "headers": _HEADERS | _ETAG}
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(_codes(route)):
        by_status.setdefault(CODES[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        said[str(status)] = {
            "description": ", ".join(f"`{code}`" for code in codes),
            "headers": _HEADERS | (_RETRY if any(CODES[code].retry_after_ms for code in codes) else {}),
            "content": {"application/json": {"schema": refs[RefusalBody]}},
        }
    return said


def _codes(route: Route) -> tuple[str, ...]:
    has_body = route.reads is not None or route.reads_raw
    has_names = bool(route.query) or "{" in route.path
    return (
        *route.refuses,
        *(_WITH_BODY if has_body else _WITH_BODY[:1] if has_names else ()),
        *(_WITH_SCOPE if route.scope else ()),
        *_ANY,
        *((_WITH_ENGINE if route.method == "GET" else _WITH_WRITES) if route.asks_engine else ()),
    )


_HEADERS: Final[dict[str, Any]] = {
    "traceparent": {"description": "The trace of this request.", "schema": {"type": "string"}}
}
_ETAG: Final[dict[str, Any]] = {"etag": {"description": "Names this version.", "schema": {"type": "string"}}}
_IF_KEPT: Final = (Query("if-none-match", "The versions that you have."),)
_RETRY: Final[dict[str, Any]] = {
    "retry-after": {"description": "When to try again, in seconds.", "schema": {"type": "integer"}}
}


def _path_parameter(name: str) -> dict[str, Any]:
    is_id = name == "id" or name.endswith("_id")
    schema = {"type": "string", "pattern": ID_PATTERN.replace(_NO_LINE_END, "")} if is_id else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _KINDS[query.kind]}
    if query.kind is int:
        schema |= {"minimum": query.least, "maximum": query.most}
    return {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.meaning,
        "schema": schema,
    }


def _body_kinds(reads: Reader[Any] | None) -> list[type]:
    return list(reads.kinds.values()) if reads is not None else []


def _schemas(kinds: Iterable[type]) -> tuple[dict[type, Any], dict[str, Any]]:
    kinds = tuple(kinds)
    refs, schemas = msgspec.json.schema_components(kinds, ref_template=_REFS)
    return dict(zip(kinds, refs, strict=True)), {name: _plain(schema) for name, schema in schemas.items()}


def _plain(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    return schema.replace(_NO_LINE_END, "") if isinstance(schema, str) else schema


#: What each socket reads and writes.
_ADDRESSES: Final = {"node": "/ws/node", "session": "/ws/session", "live": "/api/v1/live"}
_SOCKETS: Final[dict[str, dict[str, Reader[Any]]]] = {
    "node": {"receive": read_from_node, "send": read_to_node},
    "session": {"receive": read_from_client, "send": read_to_client},
    "live": {"send": read_live},
}
#: Which binary frames they read and write besides: a session's audio, and that of jobs for nodes with `binary_audio`.
_FRAMES: Final[dict[str, dict[str, tuple[type, ...]]]] = {
    "node": {"receive": (), "send": (AudioFrame,)},
    "session": {"receive": (AudioFrame, FinalFrame, PingFrame, PongFrame), "send": (PongFrame,)},
    "live": {"send": ()},
}


def asyncapi() -> dict[str, Any]:
    """AsyncAPI 3 of the sockets, as seen from here: `receive` is what comes in."""
    kinds = dict.fromkeys(
        kind for both in _SOCKETS.values() for reader in both.values() for kind in _body_kinds(reader)
    )
    refs, schemas = _schemas(kinds)
    messages = {kind.__name__: _message(kind, refs[kind]) for kind in kinds}
    messages |= {kind.__name__: _frame(kind, layout) for kind, layout in LAYOUT.items()}
    closes = "; ".join(f"{int(code)} {close.meaning}" for code, close in CLOSES.items())
    channels, operations = {}, {}
    for name, both in _SOCKETS.items():
        channels[name] = {
            "address": _ADDRESSES[name],
            "description": f"Closed with: {closes}.",
            # Each once, as some go both ways.
            "messages": {
                kind.__name__: _ref("components", "messages", kind) for action in both for kind in _spoken(name, action)
            },
        }
        for action in both:
            operations[f"{action}_{name}"] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [_ref("channels", name, "messages", kind) for kind in _spoken(name, action)],
            }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Lingua Scheduler", "version": version("lingua-scheduler")},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def _spoken(socket: str, action: str) -> list[type]:
    """All that a socket reads, or writes: messages and frames."""
    return [*_body_kinds(_SOCKETS[socket][action]), *_FRAMES[socket][action]]


def _ref(*parts: str | type) -> dict[str, str]:
    return {"$ref": "/".join(["#", *(part if isinstance(part, str) else part.__name__ for part in parts)])}


def _frame(kind: type[Any], layout: str) -> dict[str, Any]:
    said = f"{getdoc(kind) or ''} A binary frame, little-endian: {layout}."
    payload = {"type": "string", "contentMediaType": "application/octet-stream"}
    return {"name": kind.__name__, "summary": said, "contentType": "application/octet-stream", "payload": payload}


def _message(kind: type[Any], ref: dict[str, Any]) -> dict[str, Any]:
    return {"name": kind.__struct_config__.tag, "summary": getdoc(kind) or "", "payload": ref}
