"""Where the lines go: standard error, as JSON for machines, or in words on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog
from structlog.processors import JSONRenderer, TimeStamper, add_log_level
from structlog.stdlib import ProcessorFormatter, add_logger_name

from lingua_scheduler.logs.levels import begin_with

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from lingua_scheduler.config.logs import Logs

_COLOURS: Final = {"debug": "\x1b[90m", "info": "", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"


def _own_fields(_log: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """When, how bad, what, where; then the rest."""
    fields.pop("_record", None)
    fields.pop("_from_structlog", None)
    head = {"ts": fields.pop("timestamp"), "level": fields.pop("level"), "event": fields.pop("event")}
    return {**head, "module": fields.pop("logger"), **fields}


def _printable(text: str) -> str:
    """Nothing in it begins a line or moves the cursor."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def in_words(_log: object, _method: str, fields: MutableMapping[str, Any]) -> str:
    """One line for a person; of an exception more of them, each indented, so that none looks like another event."""
    level, trace = fields.pop("level"), fields.pop("exception", "")
    clock, event, module = fields.pop("ts")[11:23], fields.pop("event"), fields.pop("module")
    told = " ".join(f"{name}={_printable(str(value))}" for name, value in fields.items())
    line = f"{_COLOURS.get(level, '')}{clock} {level} {_printable(str(event))}{_PLAIN} {told}  [{module}]"
    return "\n".join([line, *(f"    {_printable(one)}" for one in str(trace).splitlines())])


def formatter(*, as_json: bool) -> logging.Formatter:
    """How a line looks, whether we wrote it or a library did."""
    return ProcessorFormatter(
        foreign_pre_chain=[structlog.processors.format_exc_info],
        processors=[
            add_log_level,
            add_logger_name,
            TimeStamper(fmt="iso", utc=True),
            _own_fields,
            JSONRenderer() if as_json else in_words,
        ],
    )


def write_logs(settings: Logs, stream: TextIO | None = None) -> None:
    """Write to standard error from now on: our own events as the settings have it, and warnings of anybody else.

    Others are never let say more: at their own `debug` level some of them write down what travels.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(as_json=not stream.isatty()))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    begin_with(settings)
