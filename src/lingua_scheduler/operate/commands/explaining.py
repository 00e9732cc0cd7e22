"""How an explanation is shown, of whatever it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape

from lingua_scheduler.operate.commands.options import printable, show

if TYPE_CHECKING:
    from collections.abc import Iterator


def show_explanation(said: dict[str, Any], *, as_json: bool) -> None:
    """Of a job its attempts, of a pair the nodes; both have the same structure."""
    if as_json:
        typer.echo(json.dumps(said))
        return
    console = Console()
    if said["job_id"]:
        why = f": {said['reason']}" if said["reason"] else ""
        console.print(_text(f"{said['job_id']} ({said['pair']}) is {said['state']}{why}"))
        head = ("attempt", "node", "of", "by", "why so", "came to", "end", "took")
        show(said, head, [_attempt(one) for one in said["attempts"]], as_json=False)
        if said["waiting"]:
            reasons = ", ".join(said["waiting"]["reasons"])
            console.print(_text(f"It waits for a node{' (' + reasons + ')' if reasons else ''}."))
    if said["nodes"] is None:
        return
    free = [one for one in said["nodes"] if not one["reason"]]
    console.print(_text(f"{said['pair']}: {len(free)} of {len(said['nodes'])} nodes could take a job now."))
    rows = [
        (
            one["node_id"],
            "yes" if not one["reason"] else f"no: {one['reason'].replace('_', ' ')}",
            f"{one['used']}/{one['max']}",
            ", ".join(word for word in ("suspect", "seen") if one[word]),
        )
        for one in sorted(said["nodes"], key=lambda one: (one["reason"], one["node_id"]))
    ]
    if rows:
        show(said, ("node", "could", "slots", "last choice because"), rows, as_json=False)


def _text(line: str) -> str:
    """What is said of a job, a node's reason in it, is neither markup nor a command to the terminal."""
    return escape(printable(line))


def _stages(one: dict[str, Any]) -> Iterator[str]:
    """How far an attempt came, and how long after its reservation."""
    for stage in ("dispatched", "accepted", "started"):
        if at_ms := one.get(f"{stage}_at_ms"):
            yield f"{stage} {at_ms - one['reserved_at_ms']} ms"


def _attempt(one: dict[str, Any]) -> tuple[Any, ...]:
    ended = one["ended_at_ms"]
    took = f"{ended - one['reserved_at_ms']} ms" if ended else ""
    return (
        one["attempt_id"],
        one["node_id"],
        one["candidates"],
        one["policy"],
        ", ".join(one["reasons"]),
        ", ".join(_stages(one)),
        one["end"] or "goes on",
        took,
    )
