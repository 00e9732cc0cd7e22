"""The fleet at a glance: its pools, its instances, and who could take a job now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingua_scheduler.operate.commands.explaining import show_explanation
from lingua_scheduler.operate.commands.options import AsJson, Token, Url, operator, say, show

if TYPE_CHECKING:
    from collections.abc import Iterator

Src = Annotated[str, typer.Argument(help="The language that is spoken.")]
Tgt = Annotated[str, typer.Argument(help="The language that is wanted.")]


def pools(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The directed pairs that somebody serves: nodes, slots, and who waits. A `!` hangs on one living node."""
    found = operator(url, token).stats()["pools"]
    rows = [
        (
            one["pair"] + (" !" if one["living"] == 1 else ""),
            one["nodes"],
            f"{one['slots'] - one['free']}/{one['slots']}",
            one["free"],
            one["waiting"] or None,
        )
        for one in found
    ]
    none = "nobody serves any pair: `lingua nodes list` says who is there"
    show({"pools": found}, ("pair", "nodes", "slots", "free", "waiting"), rows, as_json=as_json, none=none)


def explain(
    src: Src,
    tgt: Tgt,
    tts: Annotated[bool, typer.Option("--tts", help="The result is spoken, too.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Who could take such a job now, and for each other node the reason why not."""
    show_explanation(operator(url, token).explain_pair(src, tgt, tts=tts), as_json=as_json)


def link(
    read_only: Annotated[bool, typer.Option("--read-only", help="Whoever signs in by it may only look.")] = False,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """A link that signs a browser in, once, for whoever opens it first."""
    said = operator(url, token).link(read_only=read_only)
    minutes = said["expires_in_ms"] / 60_000
    say(said, f"{said['url']}\nopens once, within {minutes:g} min{', only to look' * read_only}", as_json=as_json)


def instances(url: Url = None, token: Token = None, as_json: AsJson = False) -> None:
    """The schedulers that share one state engine: what each holds, and how full its inbox is."""
    found = operator(url, token).cluster()
    dead = found["dead_letters"]
    lines = [line for one in found["instances"] for line in _lines(one)]
    lines.append(f"dead letters: {dead}" + (" (lingua dlq list)" if dead else ""))
    say(found, "\n".join(lines), as_json=as_json)


def _lines(one: dict[str, Any]) -> Iterator[str]:
    """An instance, its name on a line of its own: it may be long, and somebody may want to copy it."""
    yield one["instance_id"]
    if one["alive"]:
        stands = "draining" if one["draining"] else "serving"
        yield f"  {stands}   up {one['uptime_ms'] // 1000} s   version {one['version']}   {one['url'] or ''}".rstrip()
        yield f"  nodes {one['nodes']}   sessions {one['sessions']}   {_inbox(one)}"
    else:
        yield f"  gone   {_inbox(one)}"


def _inbox(one: dict[str, Any]) -> str:
    return f"letters {one['inbox']['letters']}   pending {one['inbox']['pending']}"
