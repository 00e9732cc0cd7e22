"""A cell of its own on a shared engine, with time as an argument: what a flow test plays with."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from lingua_scheduler.core.cell import Cell
from lingua_scheduler.core.rules import Rules
from lingua_scheduler.store.engine import Engine
from lingua_scheduler.store.keys import CELL_KEY_NAMES, cell_key
from lingua_scheduler.views.audit import audit_whole
from lingua_scheduler.views.cell import read_cell

CELL: Final = "c0"
#: Whatever else this machine does; that a silent engine is given up is told by the tests of connections.
LONG_MS: Final = 30_000
#: Any moment will do; a round one is easy to read in a failure.
EPOCH_MS: Final = 1_000_000_000_000


class World:
    """An engine client with a key prefix nobody else has, and a clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_ms = EPOCH_MS
        self.rules = Rules()
        self.engine: Engine

    async def open(self, url: str, rules: Rules = Rules(), *, max_batch: int = 64) -> None:  # noqa: B008 - frozen
        self.rules = rules
        prefix = f"test:{secrets.token_hex(6)}"
        packed = msgspec.msgpack.encode(rules)
        self.engine = await Engine.connect(
            url, prefix, packed, lambda: self.now_ms, max_batch=max_batch, timeout_ms=LONG_MS
        )

    async def cell(self) -> Cell:
        cell = await read_cell(self.engine, CELL)
        assert isinstance(cell, Cell), cell
        return cell

    async def keys(self) -> int:
        """How many keys of this world exist. (SCAN, not KEYS: the engine is shared.)"""
        return sum([await self._keys_beside(cell) for cell in self.engine.one_cell_each(CELL).values()])

    async def _keys_beside(self, cell: str) -> int:
        found, cursor = 0, b"0"
        words = ("MATCH", f"{self.engine.prefix}:*", "COUNT", 1000)
        while True:
            cursor, page = await self.engine.command("SCAN", cursor, *words, cell=cell)
            found += len(page)
            if cursor == b"0":
                return found

    async def check(self) -> None:
        """Every invariant holds, and nothing is overdue that somebody swept."""
        assert await audit_whole(self.engine, CELL, overdue_ms=10**12) == []

    async def close(self) -> None:
        keys = [cell_key(self.engine.prefix, CELL, name) for name in CELL_KEY_NAMES]
        await self.engine.command("UNLINK", *keys)
        await self.engine.close()
