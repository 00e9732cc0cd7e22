"""The typed face of a script: one packed item in, one tagged answer out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Union

import msgspec

from lingua_scheduler.core.errors import ScriptFailed
from lingua_scheduler.core.refusal import CODES
from lingua_scheduler.store.scripts import script

if TYPE_CHECKING:
    import asyncio

    from lingua_scheduler.store.engine import Engine

pack: Final = msgspec.msgpack.Encoder().encode


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """What a script answers: an array that begins with its tag."""


class No(Answer, frozen=True):
    """A script's refusal, by its code."""

    @property
    def code(self) -> str:
        """The code, the same word in Lua and here."""
        return str(self.__struct_config__.tag)


_NOES: Final[dict[str, type[No]]] = {
    code: msgspec.defstruct(code, [], bases=(No,), tag=code, array_like=True, frozen=True)  # type: ignore[misc]
    for code in CODES
}

A = TypeVar("A", bound=Answer)


class Face(Generic[A]):
    """A script with the answers it may give."""

    def __init__(self, path: str, *answers: type[A], refuses: tuple[str, ...] = ()) -> None:
        self.script = script(path)
        self.answers = answers
        self.refuses = refuses
        self._decode = msgspec.msgpack.Decoder[Any](Union[(*answers, *(_NOES[code] for code in refuses))]).decode

    def __call__(self, engine: Engine, cell: str, *parts: bytes) -> asyncio.Future[A | No]:
        """Run the script on one item, folded with others of this tick."""
        return engine.run(self.script, cell, parts, self._decode)

    def read(self, reply: bytes) -> A | No:
        """What an answer of the script says."""
        try:
            answer: A | No = self._decode(reply)
        except msgspec.MsgspecError as error:
            raise ScriptFailed(f"{self.script.name}: answered what its face does not know: {error}") from error
        return answer
