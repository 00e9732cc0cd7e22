"""The slots of a Cluster: which one a cell is in, who has which, and what a server says that has not got it."""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.core.errors import EngineUnfit

if TYPE_CHECKING:
    from lingua_scheduler.store.address import Address

SLOTS: Final = 16_384

#: The slot of a call that has no keys, or whose keys nobody named.
ANY: Final = -1

#: First words of error replies that mean: not here, and nothing was executed.
TURNS: Final = frozenset({"MOVED", "ASK", "TRYAGAIN"})


def slot_of(cell: str) -> int:
    """The slot of all keys with this hash tag."""
    return crc_hqx(cell.encode(), 0) % SLOTS if cell else ANY


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a call was sent on to. TRYAGAIN names nobody: its slot is on its way, and has keys on both sides."""

    word: str
    slot: int = ANY
    host: str = ""
    port: int = 0


def turn_of(message: str) -> Turn | None:
    """`MOVED 3999 127.0.0.1:6381`, `ASK …` or `TRYAGAIN …`; None if it is another error."""
    word, _, rest = message.partition(" ")
    if word not in TURNS:
        return None
    if word == "TRYAGAIN":
        return Turn(word)
    slot, _, where = rest.partition(" ")
    host, _, port = where.rpartition(":")
    return Turn(word, int(slot), _known(host), int(port))


@dataclass(frozen=True, slots=True)
class Span:
    """Slots from `first` to `last`, and who has them: the primary, then its replicas."""

    first: int
    last: int
    servers: tuple[Address, ...]

    @property
    def primary(self) -> Address:
        return self.servers[0]

    def __len__(self) -> int:
        return self.last - self.first + 1


def spans_of(reply: Any, asked: Address) -> list[Span]:  # noqa: ANN401 - whatever it said
    """What CLUSTER SLOTS answered. A server without a name of its own is at the host that was asked."""
    if not reply:
        raise EngineUnfit(f"{asked} belongs to no Cluster: it knows nobody who has slots")
    return [
        Span(
            first,
            last,
            tuple(asked.at(_known((host or b"").decode()) or asked.host, port) for host, port, *_ in servers),
        )
        for first, last, *servers in reply
    ]


def _known(host: str) -> str:
    """Servers that do not know how they are reached say `?`, or nothing."""
    return "" if host == "?" else host
