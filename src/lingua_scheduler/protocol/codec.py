"""Reading and writing one message. Whatever the bytes are, there is a message or an `Undecodable`, nothing else."""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar, Union

import msgspec

from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.fields import CODE_PATTERN, ID_PATTERN

#: So many lists and objects may be in one message: reading each costs more than it weighs.
MAX_BRACKETS: Final = 20_000
#: Smaller messages cannot have so many.
_LARGE: Final = MAX_BRACKETS
#: Of messages up to this size their brackets are soon counted.
_SMALL: Final = 4_096
#: Lists and objects may be so deep. Python could not write down again what is much deeper.
MAX_DEPTH: Final = 64
_MAX_SHOWN: Final = 40

encode: Final = msgspec.json.Encoder().encode

_BRACKETS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|([\]}])', re.DOTALL)
_WORDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_PATTERNS: Final = {
    ID_PATTERN: "1 to 128 of A-Z a-z 0-9 . _ - that begin with no mark",
    CODE_PATTERN: "six digits",
}


class Undecodable(Invalid):
    """A message that cannot be read; its refusal names the field.

    `kind` is the message's own `type`, as far as it has a known one. `close`: what the socket is closed with at once,
    if it must be.
    """

    def __init__(
        self, detail: str, code: str = "INVALID_MESSAGE", *, kind: str = "", close: CloseCode | None = None
    ) -> None:
        super().__init__(detail, code)
        self.kind = kind
        self.close = close


class _Head(msgspec.Struct):
    type: Any = None


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_anything: Final = msgspec.json.Decoder(msgspec.Raw).decode

M = TypeVar("M", bound=msgspec.Struct)


class Reader(Generic[M]):
    """Reads messages of these kinds: one kind of body, or what may come by a socket, told apart by `type`."""

    def __init__(self, *kinds: type[M], unsupported: frozenset[str] = frozenset()) -> None:
        self.kinds = {kind.__struct_config__.tag: kind for kind in kinds}
        #: Types that are known, but not served.
        self.unsupported = unsupported
        self._decode = msgspec.json.Decoder[Any](Union[(*kinds,)]).decode

    def __call__(self, data: bytes | str) -> M:
        """The message; `Undecodable` if it is none."""
        try:
            raw = data.encode() if isinstance(data, str) else data
        except UnicodeEncodeError as error:
            raise _unreadable(error) from None
        if len(raw) > _LARGE and raw.count(b"[") + raw.count(b"{") > MAX_BRACKETS:
            raise Undecodable(f"The message has more than {MAX_BRACKETS} lists and objects.")
        try:
            message: M = self._decode(raw)
        except msgspec.ValidationError as error:
            raise self._misfit(raw, explain(str(error))) from None
        except (ValueError, RecursionError) as error:
            raise _unreadable(error) from None
        if _is_deep(raw):
            raise _unreadable(RecursionError())
        return message

    def _misfit(self, raw: bytes, detail: str) -> Undecodable:
        """Why something is not one of these messages. It may turn out not to be JSON further on."""
        try:
            _read_anything(raw)
            head = _read_head(raw)
        except msgspec.ValidationError:
            return Undecodable("The message must be an object.")
        except (ValueError, RecursionError) as error:
            return _unreadable(error)
        if None in self.kinds:
            return Undecodable(detail)
        return self._mistyped(head.type) or Undecodable(detail, kind=head.type)

    def _mistyped(self, kind: object) -> Undecodable | None:
        """What is wrong with the `type` of a message."""
        if kind is None:
            return Undecodable("type: missing")
        if not isinstance(kind, str):
            return Undecodable("type: expected a string")
        if kind in self.unsupported:
            return Undecodable(f"{kind} is not served by this version.", "UNSUPPORTED_FEATURE", kind=kind)
        return None if kind in self.kinds else Undecodable(f"type: unknown message type {_shown(kind)}")


def _is_deep(raw: bytes) -> bool:
    if len(raw) < _SMALL:
        if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
            return False
    elif not (_has_many(raw, b"[") or _has_many(raw, b"{")):
        return False
    depth = 0
    for found in _BRACKETS.finditer(raw):
        opens, closes = found.groups()
        depth += bool(opens) - bool(closes)
        if depth > MAX_DEPTH:
            return True
    return False


def _has_many(raw: bytes, bracket: bytes) -> bool:
    """Whether there are enough of a bracket to be deep with: of a large message this is sooner known than how many."""
    at = -1
    for _ in range(MAX_DEPTH // 2 + 1):
        at = raw.find(bracket, at + 1)
        if at < 0:
            return False
    return True


def _unreadable(error: ValueError | RecursionError) -> Undecodable:
    if isinstance(error, RecursionError):
        return Undecodable(f"The message is nested more than {MAX_DEPTH} deep.")
    said = "it is not UTF-8" if isinstance(error, UnicodeError) else str(error).removeprefix("JSON is malformed: ")
    return Undecodable(f"The message is not JSON: {said}.", close=CloseCode.NOT_JSON)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…")


def explain(error: str) -> str:
    """What msgspec found wrong, the field first: `options.wait_ms: expected an integer, got a string`."""
    what, _, where = error.rpartition(" - at ") if " - at `" in error else (error, "", "")
    field = where.replace("`", "").replace("key in $", "a name in $").replace("$.", "").replace("$", "")
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", what):
        return f"{field}.{missing[1]}: missing" if field else f"{missing[1]}: missing"
    return f"{field}: {_in_words(what)}" if field else f"The message: {_in_words(what)}"


def _in_words(what: str) -> str:
    if found := re.fullmatch(r"Invalid (?:enum )?value (.*)", what, re.DOTALL):
        return f"{_shown(found[1].strip(chr(39)))} is none of the values that it may have"
    for pattern, words in _PATTERNS.items():
        if repr(pattern) in what:
            return f"expected {words}"
    said = re.sub(r"`([^`]+)`", lambda found: _kinds(found[1]), what)
    return said[:1].lower() + said[1:]


def _kinds(kinds: str) -> str:
    known = [_WORDS.get(kind, kind) for kind in kinds.split(" | ")]
    return " or ".join(kind for kind in known if kind != "null" or len(known) == 1)
