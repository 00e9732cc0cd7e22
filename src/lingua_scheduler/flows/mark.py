"""mark: a service of a node was seen not to work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.capability import SERVICES
from lingua_scheduler.core.ids import check_cell, check_id, check_text
from lingua_scheduler.core.refusal import Invalid, Refusal, refuse
from lingua_scheduler.logs import get_log
from lingua_scheduler.store.face import Answer, Face, No, pack

if TYPE_CHECKING:
    from lingua_scheduler.store.engine import Engine

log = get_log(__name__)


class Marked(Answer, frozen=True, tag="MARKED"):
    """Until then the node gets no job that needs the service."""

    until_ms: int


class Debounced(Answer, frozen=True, tag="DEBOUNCED"):
    """It was marked a moment ago, until then."""

    until_ms: int


class Limited(Answer, frozen=True, tag="LIMITED"):
    """The node was marked so often lately that this mark was not made."""


_MARK: Final = Face[Marked | Debounced | Limited](
    "flows/mark", Marked, Debounced, Limited, refuses=("UNKNOWN_NODE", "NODE_REPLACED")
)


def _type(value: object) -> str:
    if value == "" or value in SERVICES:
        return str(value)
    raise Invalid(f"service_type must be one of {', '.join(SERVICES)}, or empty for the whole node")


def _service(value: object, kind: str) -> str:
    name = check_text("service", value, 128)
    return name or kind


async def mark(
    engine: Engine, cell: str, node_id: str, service: str = "", service_type: str = "", connection: str = ""
) -> Marked | Debounced | Limited | Refusal:
    """Mark a service, by its own name and its type; without a type the whole node.

    `connection` is the one by which it was told, "" if by none; if another speaks for the node by now: NODE_REPLACED.
    """
    try:
        cell = check_cell(cell)
        kind = _type(service_type)
        told_by = check_text("connection", connection, 64)
        item = pack((check_id("node_id", node_id), _service(service, kind), kind, told_by))
    except Invalid as invalid:
        return invalid.refusal
    answer = await _MARK(engine, cell, item)
    tell = log.info if isinstance(answer, Marked) else log.debug
    tell("mark", node_id=node_id, kind=kind or None, answer=answer)
    return refuse(answer.code, node_id=node_id) if isinstance(answer, No) else answer
