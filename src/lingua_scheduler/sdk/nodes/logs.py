"""What a node says while it runs: JSON for machines, one line for each job for people. Never audio, text or tokens."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final

_NAMES: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was told beside the message."""
    return {name: value for name, value in record.__dict__.items() if name not in _NAMES}


class JsonLines(logging.Formatter):
    """One object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        """`ts` is UTC, with milliseconds."""
        said = {
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        } | fields_of(record)
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


class Lines(logging.Formatter):
    """For a person who looks on."""

    def format(self, record: logging.LogRecord) -> str:
        """A job is one line; whatever else happens is another."""
        fields = fields_of(record)
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        if record.getMessage() == "job":
            said = _job_line(fields)
        else:
            said = " ".join([record.getMessage(), *(f"{name}={_shown(value)}" for name, value in fields.items())])
        lines = [f"{clock}  {_printable(said)}"]
        if record.exc_info:
            # Indented, so that none of them looks like a line of its own.
            lines += (f"    {_printable(line)}" for line in self.formatException(record.exc_info).splitlines())
        return "\n".join(lines)


def _job_line(fields: dict[str, Any]) -> str:
    """`en:es  ok  340 ms  32000 bytes  c0.0192… 1`."""
    line = f"{fields['pair']}  {fields['outcome']}  {fields['took_ms']} ms  {fields['audio_bytes']} bytes"
    line += f"  {fields['job_id']} {fields['attempt_id']}"
    return f"{line}  {fields['error']}" if "error" in fields else line


def _printable(text: str) -> str:
    """Nothing in it begins a line or moves the cursor, whoever chose the words."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def write_logs(formatter: logging.Formatter) -> None:
    """To standard error: the node's own words, and warnings of anybody else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("lingua.node").setLevel(logging.INFO)
