"""The state engine, as the flows see it: `run` a script on a cell, or give a plain `command`.

What goes out in one tick is ordered: plain commands first, then scripts by rank, equal ranks in the order of
their first calls, the items of a batch in the order of their calls. Ticks follow each other. There is one
connection to each server, so the engine executes the calls of a cell in this order; on a Cluster, calls of different
cells may overtake each other. Only three things bend it:

- A lost connection. What was not written yet follows on the next one, in order; what was written may have
  been executed, or not, or (its bytes lie in the engine's socket) be executed even after its successors.
- SCRIPT FLUSH by somebody else. Batches that met NOSCRIPT are sent again in their old order, after everything
  of their cell that is on its way and before everything newer. Only what followed them on the wire can have overtaken
  them, and only if somebody had loaded its script again by then. Other cells are not kept waiting.
- On a Cluster, a slot that changes its server. A call that was turned away is sent again when all of its slot that
  is on its way was answered; then it goes alone, and what is newer follows when it was served. Only what followed it on
  the wire before it was turned away can have overtaken it, and only if the slot was whole again by then. Nothing is
  sent to the new server while something is still with the old one. A command whose `cell` was not given has no order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import DependencyDown
from lingua_scheduler.core.meters import CallMeter
from lingua_scheduler.store.address import Cluster, Sentinels, parse_place
from lingua_scheduler.store.assurance import Assurance
from lingua_scheduler.store.batch import Batch, Hold, Lane, Load
from lingua_scheduler.store.cluster import ClusterCarrier
from lingua_scheduler.store.connection import Connection
from lingua_scheduler.store.keys import cell_key
from lingua_scheduler.store.resp import encode, fail, failure_of_script
from lingua_scheduler.store.sentinel import SentinelConnection
from lingua_scheduler.store.wire import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any, Self

    from lingua_scheduler.store.address import Address, Place
    from lingua_scheduler.store.assurance import Replication
    from lingua_scheduler.store.batch import Read
    from lingua_scheduler.store.connection import Carrier, Entering
    from lingua_scheduler.store.scripts import Script

    Item = tuple[bytes, ...]

#: Lanes are cheap to make and cells are few; this only keeps endless cell names from filling the memory.
_MAX_LANES: Final = 4096

_RANK: Final = attrgetter("rank")


class Engine:
    """Calls of one tick, folded per script and cell, in one write on one connection."""

    def __init__(
        self,
        carrier: Carrier,
        prefix: str = "lingua:v1",
        rules: bytes = b"",
        clock: Callable[[], int] | None = None,
        *,
        max_batch: int = 64,
        replication: Replication | None = None,
    ) -> None:
        """`rules` goes to every script as it is; `clock` gives milliseconds in place of the engine's own.

        `replication`: what is promised must be on so many replicas.
        """
        self.prefix = prefix
        self._carrier = carrier
        self.obey(rules)
        self._clock = clock
        self._max_batch = max_batch
        self._loop = asyncio.get_running_loop()
        self._scripts: dict[str, Script] = {}
        self._load_errors: dict[str, str] = {}
        #: How the calls of each script went, by its name.
        self.meters: dict[str, CallMeter] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        # This tick.
        self._born = 0.0
        self._scheduled = False
        self._commands: list[tuple[bytes, Call, str]] = []
        self._open: list[Lane] = []
        #: How many batches of each cell wait for a reply.
        self._on_way: dict[str, int] = {}
        #: Cells of which a batch met NOSCRIPT, and those of them of which nothing is on its way any more.
        self._held: dict[str, Hold] = {}
        self._quiet: list[str] = []
        carrier.preamble = self._preamble
        self._assurance = Assurance(carrier, prefix, replication) if replication else None
        #: Called when there is a new connection to a server, by whoever enters with something.
        self.on_new_socket: Callable[[], None] = _nothing

    @classmethod
    async def connect(
        cls,
        url: str,
        prefix: str = "lingua:v1",
        rules: bytes = b"",
        clock: Callable[[], int] | None = None,
        *,
        max_batch: int = 64,
        timeout_ms: int = 900,
        patience_ms: int = 500,
        replication: Replication | None = None,
    ) -> Self:
        """An engine that serves already; `DependencyDown` if it does not within `timeout_ms`."""
        carrier = _carrier(parse_place(url), timeout_ms, patience_ms)
        try:
            await carrier.ready()
        except BaseException:
            await carrier.close()
            raise
        return cls(carrier, prefix, rules, clock, max_batch=max_batch, replication=replication)

    def obey(self, rules: bytes) -> None:
        """Give every script these from now on."""
        self._rules = b"$%d\r\n%b\r\n" % (len(rules), rules)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up. What waits for a reply ends as `OutcomeUnknown`, what was not sent as `DependencyDown`."""
        closed = partial(DependencyDown, "CLOSED", "the engine's client was closed")
        holds = self._held.values()
        for _, call, _ in chain(self._commands, *(hold.commands for hold in holds)):
            call.fail(closed)
        for lane in chain(self._open, *(hold.lanes for hold in holds)):
            for future in lane.futures:
                fail(future, closed)
        for hold in holds:
            hold.commands, hold.lanes = [], []
        self._commands, self._open = [], []
        self._lanes.clear()
        if self._assurance is not None:
            await self._assurance.close()
        await self._carrier.close()

    def run(self, script: Script, cell: str, item: Item, read: Read = bytes) -> asyncio.Future[Any]:
        """Run `script` on `cell` for `item`, folded with the other items of this tick, script and cell.

        The answer is what `read` makes of the reply; if that raises, nobody knows what the script said.
        """
        lane = self._lanes.get((script.sha, cell))
        if lane is None:
            lane = self._lane(script, cell, len(item))
        if len(item) != lane.width:
            # In a batch its parts would be taken for those of another caller's item.
            raise ValueError(f"an item of {script.name} has {lane.width} parts, not {len(item)}")
        # Encoded here and not in the flush: what cannot be encoded must hurt nobody but its caller. By hand,
        # because that takes half the time of hiredis.pack_command.
        if lane.width == 1:
            data = b"$%d\r\n%b\r\n" % (len(item[0]), item[0])
        elif lane.width == 2:  # noqa: PLR2004 - a record and a text, as what is called most has
            data = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(item[0]), item[0], len(item[1]), item[1])
        else:
            data = b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in item])
        if not lane.items:
            self._open.append(lane)
            if not self._scheduled:
                self._schedule()
        lane.items.append(data)
        future: asyncio.Future[Any] = self._loop.create_future()
        lane.futures.append(future)
        lane.reads.append(read)
        if self._assurance is not None and script.promises:
            return asyncio.ensure_future(self._promised(cell, self.era, future))
        return future

    def command(self, *args: bytes | str | int, cell: str = "") -> asyncio.Future[Any]:
        """Give a plain command; on a Cluster, `cell` is where its keys are, or somebody must send it on."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._scheduled:
            self._schedule()
        self._commands.append((encode(*args), Call(future, self._born), cell))
        return future

    def everywhere(self, *args: bytes | str | int) -> dict[str, asyncio.Future[Any]]:
        """Give a plain command to every server that has cells."""
        born = self._loop.time()
        answers: dict[str, asyncio.Future[Any]] = {}

        def waiter_at(server: str) -> Call:
            answers[server] = self._loop.create_future()
            return Call(answers[server], born)

        self._carrier.spread(encode(*args), waiter_at)
        self._carrier.flush()
        return answers

    @property
    def has_several_servers(self) -> bool:
        """Whether cells are on several servers, so that one that is gone takes only its own with it."""
        return isinstance(self._carrier, ClusterCarrier)

    @property
    def servers(self) -> Sequence[Address]:
        """All servers of a Cluster, also those without cells, as its map was last drawn; nobody, if it is none."""
        return self._carrier.servers if isinstance(self._carrier, ClusterCarrier) else ()

    def one_cell_each(self, cell: str) -> dict[str, str]:
        """A cell on every server: `cell` itself on its own, made-up ones on the others."""
        return self._carrier.one_cell_each(cell)

    # What is promised.

    @property
    def era(self) -> int:
        """Asked before a call whose outcome is to be promised."""
        return self._carrier.era

    def reign_of(self, cell: str) -> str:
        """Under whose reign a cell is served; "" if nobody serves it, or does not say so."""
        home = self._carrier.home_of(cell)
        return "" if home is None or not home.is_told else home.reign

    def enter_with(
        self, script: Script, cells: Callable[[], Iterable[str]], next_item: Callable[[str, bytes | None], Item | None]
    ) -> None:
        """From now on a new socket serves nobody before it has run this script on these cells.

        `next_item` makes the item of the reign under which it serves: the first one, or what is to follow this answer.
        """

        def entering(reign: str) -> Entering:
            self._loop.call_soon(self.on_new_socket)
            yield [_load_command(script)]
            items = {cell: next_item(reign, None) for cell in cells()}
            while asked := {cell: item for cell, item in items.items() if item is not None}:
                replies = yield [self._call(script, cell, item) for cell, item in asked.items()]
                answers = {cell: reply[0] for cell, reply in zip(asked, replies, strict=True) if type(reply) is list}
                items = {cell: next_item(reign, answer) for cell, answer in answers.items()}

        self._carrier.entering = entering

    def _call(self, script: Script, cell: str, item: Item) -> bytes:
        data = b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in item])
        return self._encode(self._lane(script, cell, len(item)), [data])

    async def assured(self, cell: str, era: int) -> None:
        """Return when what was answered of this cell since then stays; `OutcomeUnknown` if nobody knows that.

        At once, unless promises must be on replicas.
        """
        if self._assurance is not None:
            await self._assurance.wait(cell, era)

    @property
    def is_replicated(self) -> bool:
        """Whether what is promised must be on replicas."""
        return self._assurance is not None

    async def _promised(self, cell: str, era: int, answering: asyncio.Future[Any]) -> Any:  # noqa: ANN401 - whatever it is
        answer = await answering
        await self.assured(cell, era)
        return answer

    def _lane(self, script: Script, cell: str, width: int) -> Lane:
        if len(self._lanes) >= _MAX_LANES:
            self._lanes.clear()
        keys = [cell_key(self.prefix, cell, name) for name in (*script.keys, *self._carrier.guards)]
        head = encode("EVALSHA", script.sha, len(keys), *keys)
        meter = self.meters.setdefault(script.name, CallMeter())
        lane = Lane(script, cell, len(keys), head[head.index(b"$") :], width, meter)
        self._lanes[script.sha, cell] = lane
        return lane

    def age(self, born: float) -> float:
        """How long ago that was, in seconds."""
        return self._loop.time() - born

    def _schedule(self) -> None:
        self._scheduled = True
        self._born = self._loop.time()
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        commands, self._commands = self._commands, []
        lanes, self._open = self._open, []
        for lane in lanes:
            lane.born = self._born
        if self._held:
            commands, lanes = self._hold_back(commands, lanes)
        self._put_out(commands, lanes)
        self._carrier.flush()

    def _put_out(self, commands: list[tuple[bytes, Call, str]], lanes: list[Lane]) -> None:
        carrier = self._carrier
        for data, call, cell in commands:
            carrier.send(data, call, cell)
        if len(lanes) > 1:
            lanes.sort(key=_RANK)
        for lane in lanes:
            items, futures, reads, born = lane.items, lane.futures, lane.reads, lane.born
            lane.items, lane.futures, lane.reads = [], [], []
            if lane.script.sha not in self._scripts:
                self._load(lane.script, born)
            most = min(self._max_batch, lane.script.most)
            for start in range(0, len(items), most):
                end = start + most
                data = self._encode(lane, items[start:end])
                self._send(Batch(self, lane, data, futures[start:end], reads[start:end], born))

    def _encode(self, lane: Lane, items: list[bytes]) -> bytes:
        now = b"" if self._clock is None else b"%d" % self._clock()
        return b"*%d\r\n%b$%d\r\n%b\r\n%b%b" % (
            5 + lane.keys + lane.width * len(items),
            lane.head,
            len(now),
            now,
            self._rules,
            b"".join(items),
        )

    def _send(self, batch: Batch) -> None:
        self._on_way[batch.cell] = self._on_way.get(batch.cell, 0) + 1
        self._carrier.send(batch.data, batch, batch.cell)

    # Loading scripts.

    def _preamble(self) -> list[bytes]:
        return [_load_command(script) for script in self._scripts.values()]

    def _load(self, script: Script, born: float) -> None:
        """Everywhere, whoever asked for it: somebody on another server will be next."""
        self._scripts[script.sha] = script
        self._carrier.spread(_load_command(script), lambda _: Load(self, script, born))

    def loaded(self, script: Script, error: str) -> None:
        """A SCRIPT LOAD was answered."""
        if error:
            self._load_errors[script.sha] = error
        else:
            self._load_errors.pop(script.sha, None)

    def refused(self, batch: Batch, message: str) -> None:
        """The engine answered a batch with an error."""
        if not message.startswith("NOSCRIPT"):
            batch.fail(failure_of_script(batch.script, message))
        elif batch.sent_again:
            batch.fail(failure_of_script(batch.script, self._load_errors.get(batch.script.sha, message)))
        else:
            self._held.setdefault(batch.cell, Hold()).batches.append(batch)
            self.settled(batch.cell)

    def settled(self, cell: str) -> None:
        """A batch is not on its way any more. The last one of a cell lets those that met NOSCRIPT go again."""
        left = self._on_way[cell] - 1
        if left:
            self._on_way[cell] = left
            return
        del self._on_way[cell]
        if cell in self._held:
            if not self._quiet:
                # Soon, so that what the others of these replies say is loaded with it, each script once.
                self._loop.call_soon(self._go_again)
            self._quiet.append(cell)

    def _hold_back(
        self, commands: list[tuple[bytes, Call, str]], lanes: list[Lane]
    ) -> tuple[list[tuple[bytes, Call, str]], list[Lane]]:
        """What is of no held cell. The rest waits with its cell."""
        free: list[tuple[bytes, Call, str]] = []
        for command in commands:
            hold = self._held.get(command[2])
            (free if hold is None else hold.commands).append(command)
        open_lanes: list[Lane] = []
        for lane in lanes:
            hold = self._held.get(lane.cell)
            (open_lanes if hold is None else hold.lanes).append(lane)
        return free, open_lanes

    def _go_again(self) -> None:
        cells, self._quiet = self._quiet, []
        holds = [self._held.pop(cell) for cell in cells]
        batches = [batch for hold in holds for batch in hold.batches]
        for script in {batch.script.sha: batch.script for batch in batches}.values():
            self._load(script, batches[0].born)
        for batch in batches:
            batch.sent_again = True
            self._send(batch)
        for hold in holds:
            self._put_out(hold.commands, hold.lanes)
        self._carrier.flush()


def _carrier(place: Place, timeout_ms: int, patience_ms: int) -> Carrier:
    if isinstance(place, Cluster):
        return ClusterCarrier(place, timeout_ms=timeout_ms, patience_ms=patience_ms)
    if isinstance(place, Sentinels):
        return SentinelConnection(place, timeout_ms=timeout_ms, patience_ms=patience_ms, asks_reign=True)
    return Connection(place, timeout_ms=timeout_ms, patience_ms=patience_ms, asks_reign=True)


def _nothing() -> None:
    pass


def _load_command(script: Script) -> bytes:
    return encode("SCRIPT", "LOAD", script.source)
