"""The fleet at a glance: its pools, its instances, and who could take a job now."""

from __future__ import annotations

from typing import Annotated

import typer

from lingua_scheduler.operate.commands.explaining import show_explanation
from lingua_scheduler.operate.commands.options import AsJson, Token, Url, operator, say, show

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
    show({"pools": found}, ("pair", "nodes", "slots", "free", "waiting"), rows, as_json=as_json)


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
    found = operator(url, token).instances()
    rows = [
        (
            one["instance_id"],
            "gone" if not one["alive"] else "draining" if one["draining"] else "serving",
            "" if one["uptime_ms"] is None else f"{one['uptime_ms'] // 1000} s",
            one["nodes"],
            one["sessions"],
            one["inbox"]["letters"],
            one["url"],
        )
        for one in found
    ]
    head = ("instance", "is", "up", "nodes", "sessions", "letters", "where")
    show({"instances": found}, head, rows, as_json=as_json)
