"""What the server writes down: events with fields, by structlog on the loggers of the standard library.

The name of an event is that of the flow, or of the loop or door, that it tells of; everything else is a field, one of
`FIELDS`. Never audio, what was said, or a token. The SDK does without this: a node has logs of its own.
"""

from lingua_scheduler.logs.log import FIELDS, LEVELS, Log, code_in, get_log

__all__ = ["FIELDS", "LEVELS", "Log", "code_in", "get_log"]
