"""The other end: what a node, or an app, is written with.

It needs `msgspec`, `websockets` and `langcodes`, and nothing else of what the server needs.
"""

from lingua_scheduler.sdk.client import Client
from lingua_scheduler.sdk.client_errors import ClientError
from lingua_scheduler.sdk.client_items import Missing, Partial, Result
from lingua_scheduler.sdk.nodes.job import Job, JobError
from lingua_scheduler.sdk.nodes.node import Node

__all__ = ["Client", "ClientError", "Job", "JobError", "Missing", "Node", "Partial", "Result"]
