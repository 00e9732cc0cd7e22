"""Pairing codes: six digits that stand for a node, so that somebody can choose it without knowing its name."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.core.ids import CODE_DIGITS
from lingua_scheduler.core.refusal import Refusal
from lingua_scheduler.flows.pair import Paired, pair
from lingua_scheduler.views.node import read_node

if TYPE_CHECKING:
    from lingua_scheduler.front.directory import Directory
    from lingua_scheduler.store.engine import Engine

#: So many codes in a row that others have: then nearly all of them are in use.
_TRIES: Final = 100


async def offer_pairing(directory: Directory, node_id: str) -> str | Refusal:
    """A new code for a registered node."""
    return await directory.at_home(node_id, lambda cell: _offer(directory.engine, cell, node_id))


async def _offer(engine: Engine, cell: str, node_id: str) -> str | Refusal:
    node = await read_node(engine, cell, node_id)
    if isinstance(node, Refusal):
        return node
    for _ in range(_TRIES):
        code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}}"
        paired = await pair(engine, cell, node_id, code)
        if isinstance(paired, Paired):
            return code
    raise LinguaError(f"{_TRIES} pairing codes in a row were in use")
