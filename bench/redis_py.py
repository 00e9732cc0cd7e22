"""The peer: redis-py's asyncio pool behind the same interface, so that only the client differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.asyncio import BlockingConnectionPool, Redis

from lingua_scheduler.store.keys import cell_key

if TYPE_CHECKING:
    from lingua_scheduler.store.batch import Read
    from lingua_scheduler.store.scripts import Script


class RedisPyEngine:
    """Each call a connection of the pool, an EVALSHA, a reply: what one would write without a client of one's own."""

    def __init__(self, path: str, prefix: str, rules: bytes, in_flight: int) -> None:
        self.prefix = prefix
        self._rules = rules
        pool = BlockingConnectionPool.from_url(f"unix://{path}", max_connections=in_flight, timeout=None)
        self._redis: Any = Redis(connection_pool=pool)

    async def run(self, script: Script, cell: str, item: tuple[bytes, ...], read: Read = bytes) -> Any:  # noqa: ANN401
        """One item, one call; the answer is what `read` makes of the reply."""
        keys = [cell_key(self.prefix, cell, name) for name in script.keys]
        reply: list[bytes] = await self._redis.evalsha(script.sha, len(keys), *keys, b"", self._rules, *item)
        return read(reply[0])

    async def close(self) -> None:
        """Give the connections back."""
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()
