"""A reign: the time in which one server serves without a break. Who serves after it may have forgotten its last words.

It is known by the server's run id, which is new when it starts, and by the history that it had before it last became
a primary (`master_replid2`). Its replication id alone would not do: that is another one also when it has its first
replica.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua_scheduler.store.address import Address

#: What INFO is asked for.
SECTIONS: Final = ("server", "replication")

_RUN: Final = re.compile(rb"^run_id:([0-9a-f]{16})", re.MULTILINE)
_BEFORE: Final = re.compile(rb"^master_replid2:([0-9a-f]{16})", re.MULTILINE)
_REPLICA: Final = re.compile(rb"^role:slave", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reign:
    """Whose it is, by a name that no other has."""

    id: str
    is_replica: bool = False
    #: False: the server does not say, and nobody knows whether it is the same as before.
    is_told: bool = True


#: Before anybody was there.
NOBODY: Final = Reign("")


@dataclass(frozen=True, slots=True)
class Home:
    """Where a cell is served, and under which reign."""

    address: Address
    reign: str
    is_told: bool = True


def reign_in(reply: object) -> Reign:
    """By what INFO said. Where that is forbidden, every socket counts as a reign of its own."""
    if isinstance(reply, bytes) and (run := _RUN.search(reply)) and (before := _BEFORE.search(reply)):
        return Reign(f"{run[1].decode()}-{before[1].decode()}", bool(_REPLICA.search(reply)))
    return Reign(secrets.token_hex(16), is_told=False)
