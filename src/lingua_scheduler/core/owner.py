"""Which instance something belongs to: a connection says so by its name, a job by the end of its id."""

from __future__ import annotations

import functools
import hashlib
import secrets
from typing import Final

#: As many digits of a job's id name the instance that made it.
MARK_CHARS: Final = 8


def new_connection(instance_id: str) -> str:
    """A name for a connection: where it ends, and a nonce. The close of one that was replaced changes nothing."""
    return f"{instance_id}.{secrets.token_hex(16)}"


def instance_of(connection: str) -> str:
    """Where a connection ends; "" if it does not say so."""
    return connection.rpartition(".")[0]


@functools.lru_cache(maxsize=1_024)
def mark_of(instance_id: str) -> str:
    """What the ids of an instance's jobs have in common."""
    return hashlib.sha256(instance_id.encode()).hexdigest()[:MARK_CHARS]


def mark_in(job_id: str) -> str:
    """The mark of the instance that made a job; of an id that was made otherwise, anything."""
    return job_id.split(".")[1][-MARK_CHARS:]
