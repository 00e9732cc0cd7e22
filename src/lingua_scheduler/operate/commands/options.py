"""What these commands take, and how they answer."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingua_scheduler.operate.ask import NotAnswered, Operator

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on the last line, nothing for the eye.")]
Url = Annotated[str | None, typer.Option(help="Of a scheduler. [default: LINGUA_URL, else this machine's]")]
#: Of what looks at this machine, unless it is told to ask a scheduler.
AskedUrl = Annotated[str | None, typer.Option("--url", help="Ask this scheduler instead.")]
Token = Annotated[str | None, typer.Option(help="The operator's. [default: LINGUA_TOKEN]")]
NodeId = Annotated[str, typer.Argument(help="As `lingua nodes list` names it.")]
JobId = Annotated[str, typer.Argument(help="As whoever submitted it was told.")]


def operator(url: str | None, token: str | None) -> Operator:
    """Whoever asks."""
    from lingua_scheduler.operate.ask import Operator  # noqa: PLC0415 - only these commands need it

    return Operator(url, token)


class Patience:
    """Of whoever asks again and again: he outlives a restart of the scheduler, and says why he waits."""

    def __init__(self) -> None:
        self._told = ""

    def bear(self, error: NotAnswered) -> None:
        """Not answered; raised again if another try cannot be answered either."""
        if error.is_final:
            raise error
        if str(error) != self._told:
            self._told = str(error)
            typer.echo(f"lingua: {error}", err=True)


def say(said: dict[str, Any], line: str, *, as_json: bool) -> None:
    """One thing: for programs as it came, for people in words."""
    typer.echo(json.dumps(said) if as_json else line)


def show(
    said: dict[str, Any], head: tuple[str, ...], rows: Sequence[tuple[Any, ...]], *, as_json: bool, none: str = ""
) -> None:
    """A list: for programs as it came, for people as a table from which nothing is cut off; or that there is `none`."""
    if as_json or (none and not rows):
        typer.echo(json.dumps(said) if as_json else none)
        return
    table = Table(*(Column(name, overflow="fold") for name in head))
    for row in rows:
        table.add_row(*("" if value is None else escape(printable(value)) for value in row))
    Console().print(table)


def show_facts(said: dict[str, Any], facts: Iterable[tuple[str, Any]], *, as_json: bool) -> None:
    """What is known of one thing, a line each; what is not known is left out."""
    if as_json:
        typer.echo(json.dumps(said))
        return
    table = Table.grid(Column(style="bright_black"), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for name, value in facts:
        if value not in (None, "", [], {}):
            table.add_row(name, escape(printable(value)))
    Console().print(table)


def printable(value: object) -> str:
    """As it may be shown in a terminal: names and reasons come from nodes, and none is a command to it."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(value))


def is_watched() -> bool:
    """Whether a person looks on while something takes its time."""
    return sys.stderr.isatty()
