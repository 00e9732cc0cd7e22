"""How something is written down, and what may be said of it."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

import structlog
from structlog.stdlib import ProcessorFormatter

if TYPE_CHECKING:
    from collections.abc import MutableMapping

#: By their names, the most talkative first.
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

#: All that may be told of an event, and what it means. What was said in a session, audio and tokens have no field.
FIELDS: Final = {
    "job_id": "the job",
    "node_id": "the node",
    "attempt": "the number of the attempt",
    "reason": "why: a code, or a sentence of ours",
    "trace_id": "of the request or session that it belongs to; `traceparent` names it",
    "outcome": "what the engine answered, if it was no refusal",
    "detail": "in words",
    "session_id": "the session",
    "instance_id": "another scheduler",
    "cell": "the cell",
    "kind": "of an event or a letter",
    "letter": "the number of a letter",
    "number": "how many",
    "most": "how many at most",
    "bytes": "how many bytes",
    "seconds": "for how long, or in how many",
    "invariant": "of docs/invariants.md",
    "subject": "what violates it",
    "preferred": "the node that was asked for",
    "path": "of the request or the socket",
    "method": "of the request",
    "who": "whose token it was",
    "name": "of what was running in the background",
    "module_set": "the module whose level was set",
    "level_set": "the level that it was set to",
}

#: A text that is longer is cut: nobody outside decides how long a line is.
_MOST_CHARS: Final = 1_000


def _answered(_log: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """`answer` is what a flow answered: of that only its name is told, or the code of its refusal."""
    answer = fields.pop("answer", None)
    if answer is not None:
        code = getattr(answer, "code", None)
        config = getattr(answer, "__struct_config__", None)
        tag = getattr(config, "tag", None) or type(answer).__name__.upper()
        fields["outcome" if code is None else "reason"] = str(tag if code is None else code)
    return fields


def _bounded(_log: object, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Numbers as they are, the rest as a text that is not too long."""
    for name, value in fields.items():
        if name != _TRACEBACK and not isinstance(value, int | float | None):
            text = str(value)
            fields[name] = text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "…"
    return fields


_TRACEBACK: Final = "exception"

#: Before it is known where a line goes. Of an exception: its way through the code, without the values on that way.
PROCESSORS: Final = (_answered, structlog.processors.format_exc_info, _bounded, ProcessorFormatter.wrap_for_formatter)


class Log(structlog.BoundLoggerBase):
    """Events of one module. Whether a level is wanted is asked first: a line that nobody wants costs that question."""

    _logger: logging.Logger
    #: Whether `debug` is wanted, for whoever would have to ask all the time: with it a line costs nothing.
    is_debug = False

    def debug(self, event: str, **fields: object) -> None:
        """What happens all the time."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._proxy_to_logger("debug", event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """What happens now and then, and is as it should be."""
        if self._logger.isEnabledFor(logging.INFO):
            self._proxy_to_logger("info", event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """What somebody may want to look at."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._proxy_to_logger("warning", event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """What should not be. `exc_info` is the exception."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._proxy_to_logger("error", event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """The same, of the exception that is being handled."""
        self.error(event, exc_info=True, **fields)


_LOGS: Final[dict[str, Log]] = {}


def get_log(module: str) -> Log:
    """The log of a module, by its `__name__`."""
    return _LOGS.setdefault(module, Log(logging.getLogger(module), PROCESSORS, {}))


def look_again() -> None:
    """Levels have changed."""
    for module, log in _LOGS.items():
        log.is_debug = logging.getLogger(module).isEnabledFor(logging.DEBUG)


_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{2,63}")


def code_in(reason: str) -> str | None:
    """The code with which a reason of somebody else begins. His other words may tell what was said."""
    found = _CODE.match(reason)
    return found[0] if found else None
