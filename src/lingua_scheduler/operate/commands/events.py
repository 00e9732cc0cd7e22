"""`lingua events`: what happened to the fleet, and what happens."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from lingua_scheduler.operate.commands.options import AsJson, Patience, Token, Url, operator, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingua_scheduler.operate.ask import Operator

#: With --follow: so often it is asked what is new.
_LOOK_S: Final = 1.0
_PAGE: Final = 1_000
_QUIET: Final = "bright_black"
_BAD: Final = (
    "_lost",
    "_silent",
    "_suspect",
    "_cut_off",
    "_fenced",
    "_empty",
    "_panic",
    "_emptied",
    "mass_silence",
    "dead_letter",
)
_GOOD: Final = ("_joined", "_healed", "_served", "_calm", "_back", "_came", "_unmarked")


def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE, help="So many of the last ones.")] = 50,
    about: Annotated[str | None, typer.Option(help="Only what happened to this node, pair, instance or job.")] = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What happened: nodes, pairs, instances, and who did what. With --json: one object; with --follow one a line."""
    asked = operator(url, token)
    found = asked.events("", limit, about)
    if as_json and not follow:
        typer.echo(json.dumps(found))
        return
    console, patience = Console(highlight=False), Patience()
    try:
        while True:
            for event in found["events"]:
                if as_json:
                    typer.echo(json.dumps(event))
                else:
                    for line in lines_of(event, about):
                        console.print(line, soft_wrap=True)
            if not follow:
                return
            if len(found["events"]) < _PAGE:
                time.sleep(_LOOK_S)
            found = _next(asked, found["last"], about, patience)
    except KeyboardInterrupt:
        return


def _next(asked: Operator, last: str, about: str | None, patience: Patience) -> dict[str, Any]:
    """What came since. Whoever follows outlives a restart of the scheduler."""
    from lingua_scheduler.operate.ask import NotAnswered  # noqa: PLC0415 - only commands that ask need it

    try:
        return asked.events(last, _PAGE, about)
    except NotAnswered as error:
        patience.bear(error)
        return {"events": [], "last": last}


def lines_of(event: dict[str, Any], about: str | None = None) -> Iterator[Text]:
    """An event of many at once has a line for each of them; or for the one that is asked for."""
    if "each" not in event or about is None:
        yield line_of(event)
    for one in event.get("each", ()):
        if about in {None, one["about"]}:
            said = printable(f"{one['about']}  {one['detail']}".rstrip())
            yield Text(f"{'':>19}  {'':<17} {said}") if about is None else line_of(event | one)


def line_of(event: dict[str, Any]) -> Text:
    """One event in a line: when, what, about what, and what is said of it. Nothing in it is markup or another line."""
    when = datetime.fromtimestamp(event["at_ms"] / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    kind: str = event["kind"]
    colour = "red" if kind.endswith(_BAD) else "green" if kind.endswith(_GOOD) else "cyan"
    said = Text.assemble((when, _QUIET), "  ", (f"{kind:<17}", colour), f" {printable(event['about'])}")
    if event["detail"]:
        said.append(f"  {printable(event['detail'])}")
    if "outcome" in event:
        who, where = event["who"] or "somebody without a name", event["where"]
        said.append(printable(f"  by {who}{' from ' + where if where else ''}: {event['outcome']}"), style=_QUIET)
    return said
