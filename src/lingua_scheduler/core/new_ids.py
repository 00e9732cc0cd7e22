"""New ids. Apart from the checks in `ids`, because whoever only reads messages makes none."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from uuid_utils import uuid7

from lingua_scheduler.core.owner import MARK_CHARS, mark_of

#: An id has room for 128; process and chance need less than half of that.
_MAX_HOST_CHARS: Final = 64


def new_job_id(cell: str, maker: str = "", home: str = "") -> str:
    """A job id names its home cell: `c0.<uuid7>`. It is also the id under which a dispatch can be resent.

    Of a maker who has a name, it ends with a digest of that: whether a job is his can be told by its id alone. The last
    digits of the UUID are the mark of the instance that made it, if that is told: whoever hears of the job knows where
    somebody may wait for it.
    """
    made = str(uuid7())
    if home:
        made = made[:-MARK_CHARS] + mark_of(home)
    return f"{cell}.{made}{_mark_of(maker)}"


def is_made_by(job_id: str, maker: str) -> bool:
    """Whether an id was made for a job of this maker; "" is nobody in particular."""
    return job_id.endswith(_mark_of(maker)) and job_id.count(".") == 1 + bool(maker)


def _mark_of(maker: str) -> str:
    return "." + hashlib.sha256(maker.encode()).hexdigest()[:16] if maker else ""


def new_instance_id(host: str, pid: int) -> str:
    """`<host>-<pid>-<random>`: it says where to look, and no two are alike."""
    named = re.sub(r"[^A-Za-z0-9._-]+", "-", host).lstrip("._-")[:_MAX_HOST_CHARS]
    return f"{named or 'host'}-{pid}-{secrets.token_hex(4)}"


def new_node_id() -> str:
    """An id for a node that has none."""
    return f"node-{uuid7()}"
