"""What a node has that was told of it by another instance: its errands are known from then on where it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.front.assignment import cargo_of
from lingua_scheduler.views.job import Job, read_job
from lingua_scheduler.views.node import Node, read_node

if TYPE_CHECKING:
    from lingua_scheduler.front.errands import Errands
    from lingua_scheduler.store.engine import Engine

#: Its node has it for sure. What it has not accepted it may not have: that is still to be written to it.
_ACCEPTED: Final = ("ACCEPTED", "RUNNING")


async def recall(engine: Engine, errands: Errands, cell: str, node_id: str) -> None:
    """Ask the engine what the node works on, and remember what is not known here."""
    node = await read_node(engine, cell, node_id)
    for job_id, attempt_id in node.held if isinstance(node, Node) else ():
        if errands.has(job_id):
            continue
        job = await read_job(engine, job_id)
        cargo = cargo_of(job) if isinstance(job, Job) and _is_with(job, attempt_id, node_id) else None
        if cargo is not None and not errands.has(job_id):
            errands.add(cargo.errand(job_id, attempt_id, node_id))


def _is_with(job: Job, attempt_id: int, node_id: str) -> bool:
    record = job.record
    return record.state in _ACCEPTED and (record.attempt, record.node) == (attempt_id, node_id)
