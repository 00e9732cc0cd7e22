"""Asking several servers the same, where the first good answer is enough."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lingua_scheduler.core.errors import DependencyDown, EngineUnfit, LinguaError, ScriptFailed
from lingua_scheduler.store.connection import Connection

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

    from lingua_scheduler.store.address import Address

T = TypeVar("T")

#: Whoever is silent for so long is not waited for alone.
_HEAD_START_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """What several servers are asked."""

    command: tuple[str, ...]
    #: What an answer means; `LinguaError` if it is no good.
    read: Callable[[Any, Address], T]
    #: What is said of a server that knows no such questions.
    otherwise: str

    async def first_answer(self, seeds: Iterable[Address], timeout_ms: int, tls: ssl.SSLContext | None) -> T:
        """The first good answer; `DependencyDown` with everybody's reason if there is none.

        `EngineUnfit`, if all of them answered, and none is what the URL says.
        """
        asked: set[asyncio.Task[T]] = set()
        failures: list[LinguaError] = []
        left = list(seeds)
        try:
            while left or asked:
                if left:
                    asked.add(asyncio.create_task(self._ask(left.pop(0), timeout_ms, tls)))
                patience = _HEAD_START_S if left else None
                done, asked = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        return task.result()
                    except LinguaError as error:
                        failures.append(error)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise _all_in_one(failures)

    async def _ask(self, address: Address, timeout_ms: int, tls: ssl.SSLContext | None) -> T:
        connection = Connection(address, timeout_ms=timeout_ms, tls=tls)
        try:
            await connection.ready()
            return self.read(await connection.call(*self.command), address)
        except ScriptFailed as error:
            raise EngineUnfit(f"{address} {self.otherwise} ({error})") from None
        finally:
            await connection.close()


def _all_in_one(failures: list[LinguaError]) -> LinguaError:
    told = [error.detail if isinstance(error, DependencyDown) else str(error) for error in failures]
    why = "; ".join(dict.fromkeys(told))
    if all(isinstance(error, EngineUnfit) for error in failures):
        return EngineUnfit(why)
    return DependencyDown("UNREACHABLE", why)
