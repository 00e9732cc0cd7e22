"""The sockets of nodes that are open here, by node id: who is written to, and who is told to go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

from lingua_scheduler.protocol.codec import encode
from lingua_scheduler.protocol.errors import CloseCode
from lingua_scheduler.protocol.node import JobCancel, NodeControl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence

    from lingua_scheduler.protocol.legacy import Abilities
    from lingua_scheduler.protocol.node import ToNode
    from lingua_scheduler.protocol.registration import Registering

#: A node that never says what became of what it was told to stop is not believed to have more than this.
MAX_AT_WORK: Final = 1_024

Command = Literal["drain", "resume", "shutdown", "reload_config"]
COMMANDS: Final[dict[str, Command]] = {name: name for name in get_args(Command)}


class Wire(Protocol):
    """What a link is written to: a `Socket`."""

    @property
    def way_ms(self) -> int | None: ...

    def write(self, data: str | bytes, *, may_drop: bool = False) -> bool: ...

    def close(self, code: CloseCode, detail: str = "", trace_id: str | None = None) -> Awaitable[None]: ...


def replaced(node_id: str) -> str:
    """What a connection is told that another one has taken the place of."""
    return f"another connection speaks for node {node_id} now"


@dataclass(slots=True, kw_only=True)
class Known:
    """A registered node, as its socket knows it."""

    node_id: str
    epoch: str
    #: The name of its connection.
    connection: str
    credential: str
    abilities: Abilities
    #: What it last said of itself, to register it again when the engine came back empty.
    words: Registering
    #: Of which type each of its services is.
    types: dict[str, str] = field(default_factory=dict)
    #: What it is told to beat at; any other pace will do.
    heartbeat_ms: int = 15_000
    #: The thread of its connection: what has none of its own is told under this.
    trace_id: str | None = None
    #: When its connection was opened, by the engine's clock.
    opened_ms: int = 0


class Link:
    """A node that registered over a socket that is open here."""

    def __init__(self, wire: Wire, known: Known) -> None:
        self._wire = wire
        self._closing: asyncio.Future[None] | None = None
        self.known = known
        #: What it physically has, as far as is known here: it brought it, or was told of it, and has not let go of it.
        self._at_work: dict[tuple[str, int], None] = dict.fromkeys(known.words["running"] or ())

    @property
    def node_id(self) -> str:
        """Whose it is."""
        return self.known.node_id

    @property
    def epoch(self) -> str:
        """Of which life of the node."""
        return self.known.epoch

    @property
    def abilities(self) -> Abilities:
        """What the node can do beyond the legacy dialect."""
        return self.known.abilities

    @property
    def way_ms(self) -> int | None:
        """How long a message takes to the node, or back; None: that is not known yet."""
        return self._wire.way_ms

    @property
    def at_work(self) -> list[tuple[str, int]]:
        """The attempts that the node has, whatever the engine believes."""
        return list(self._at_work)

    def took(self, job_id: str, attempt_id: int) -> None:
        """It was told of an attempt."""
        self._at_work[job_id, attempt_id] = None
        if len(self._at_work) > MAX_AT_WORK:
            del self._at_work[next(iter(self._at_work))]

    def let_go(self, job_id: str, attempt_id: int) -> None:
        """By its own word it is through with an attempt."""
        self._at_work.pop((job_id, attempt_id), None)

    def write(self, message: ToNode) -> bool:
        """Write a message, in this very tick if the node reads. False: it will never arrive."""
        return self._wire.write(encode(message).decode())

    def write_all(self, frames: Sequence[str | bytes]) -> bool:
        """Write frames that belong together. A node that got only some of them is hung up on."""
        if not self._wire.write(frames[0]):
            return False
        if all(self._wire.write(frame) for frame in frames[1:]):
            return True
        self.hang_up(CloseCode.OVERLOADED, "the audio of a job did not fit into what waits to be read")
        return False

    def cancel(self, job_id: str, attempt_id: int, reason: str, trace_id: str | None) -> bool:
        """Tell the node to stop working on an attempt, under the trace of its job, or of the connection."""
        trace_id = trace_id or self.known.trace_id
        return self.write(JobCancel(job_id=job_id, attempt_id=attempt_id, trace_id=trace_id, reason=reason))

    def control(self, command: Command, reason: str | None = None) -> bool:
        """Tell the node what the operator wants."""
        return self.write(NodeControl(command=command, reason=reason))

    def hang_up(self, code: CloseCode, detail: str = "", trace_id: str | None = None) -> None:
        """Say why, and close, without waiting for it. Who reads the socket sees its end, and tells the engine."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._wire.close(code, detail, trace_id))


class Links:
    """At most one for each node: a newer one takes the place of the older."""

    def __init__(self) -> None:
        self._by_node: dict[str, Link] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(list(self._by_node.values()))

    def __len__(self) -> int:
        return len(self._by_node)

    def get(self, node_id: str) -> Link | None:
        """The node's link, if its socket is open here."""
        return self._by_node.get(node_id)

    def add(self, link: Link) -> None:
        """Take a link in. The older one of the same node is told that it was replaced."""
        self.replace(link.node_id)
        self._by_node[link.node_id] = link

    def replace(self, node_id: str, connection: str = "") -> None:
        """The node has registered elsewhere, or without a socket: its link gets nothing more, and is told why.

        Whoever names a connection means only that one.
        """
        older = self._by_node.get(node_id)
        if older is not None and connection in {"", older.known.connection}:
            del self._by_node[node_id]
            older.hang_up(CloseCode.REPLACED, replaced(node_id))

    def remove(self, link: Link) -> None:
        """The socket is closed; a newer link of the same node stays."""
        if self._by_node.get(link.node_id) is link:
            del self._by_node[link.node_id]
