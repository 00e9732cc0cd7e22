"""The other end: what a node, or an app, is written with.

It needs `msgspec`, `websockets` and `langcodes`, and nothing else of what the server needs.
"""

from lingua_scheduler.sdk._connect import Refused
from lingua_scheduler.sdk.nodes.job import Job, JobError
from lingua_scheduler.sdk.nodes.node import Node

__all__ = ["Job", "JobError", "Node", "Refused"]
