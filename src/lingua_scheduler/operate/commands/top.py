"""`lingua top`: the fleet in a terminal, as it is now, until Ctrl-C."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich import box
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lingua_scheduler.core.errors import LinguaError
from lingua_scheduler.operate.commands.nodes import stands
from lingua_scheduler.operate.commands.options import AsJson, Token, Url, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from lingua_scheduler.operate.ask import Operator

_QUIET: Final = "bright_black"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
#: So many looks are remembered for the little curves.
_REMEMBERED: Final = 60
_NODE_WIDTH: Final = 30
#: What everything but the nodes needs, in rows; and how many pools are shown at most.
_OTHER_ROWS: Final = 12
_MOST_POOLS: Final = 12
_MOST_PROBLEMS: Final = 3
_COLOURS: Final = {"available": "green", "full": "yellow", "resting": "blue"} | dict.fromkeys(
    ("suspect", "suspect full", "on trial"), "magenta"
)


@dataclass(slots=True)
class Curve:
    """A number and how it was lately."""

    name: str
    values: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def add(self, value: float | None) -> None:
        """How it is now; None: nobody knows."""
        self.values.append(value or 0)

    def spark(self, width: int) -> str:
        """The last ones, each as high as it is beside the highest."""
        shown = list(self.values)[-width:]
        most = max([*shown, 1e-9])
        return "".join(_LEVELS[round((len(_LEVELS) - 1) * value / most)] for value in shown)


class Watch:
    """What was seen so far, look by look."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._curves = [Curve("ready nodes"), Curve("free slots"), Curve("in flight"), Curve("p95 dispatch, ms")]
        self._stats: dict[str, Any] | None = None
        self._nodes: list[dict[str, Any]] = []
        self._trouble = ""

    def see(self, stats: dict[str, Any], nodes: list[dict[str, Any]] | None) -> None:
        """The fleet as it is now. None: nobody could look at its nodes, and those that were seen last are shown."""
        self._stats, self._trouble = stats, ""
        self._nodes = self._nodes if nodes is None else nodes
        ready = sum(number for standing, number in stats["nodes"].items() if standing in {"available", "full"})
        now = (ready, stats["slots"]["free"], stats["jobs"]["in_flight"], stats["dispatch_ms"]["p95"])
        for curve, value in zip(self._curves, now, strict=True):
            curve.add(value)

    def miss(self, why: str) -> None:
        """Nobody answers just now: what was seen last is shown, and that it is old."""
        self._trouble = why

    def draw(self, width: int, height: int) -> RenderableType:
        """The whole screen, for a terminal of this size."""
        if self._stats is None:
            return Text(self._trouble or "…", style="red" if self._trouble else _QUIET)
        stats = self._stats
        parts: list[RenderableType] = [self._head(stats), self._numbers(width)]
        pools = sorted(stats["pools"], key=lambda pool: (-pool["waiting"], pool["free"], pool["pair"]))
        if pools:
            parts.append(_pools(pools, width))
        rows = max(1, height - _OTHER_ROWS - min(len(pools), _MOST_POOLS) // max(1, width // _NODE_WIDTH))
        parts.append(_nodes(self._nodes, most=rows * max(1, (width - 4) // _NODE_WIDTH)))
        return Group(*parts)

    def _head(self, stats: dict[str, Any]) -> Text:
        jobs = stats["jobs"]
        said = Text.assemble(
            (" lingua top ", "bold reverse cyan"),
            (f"  {self._where}  {stats['instances']} instances, {stats['sessions']} sessions, ", _QUIET),
            (f"{jobs['finished_total']:,} done, {jobs['failed_total']:,} failed", _QUIET),
        )
        if self._trouble:
            said.append(f"\n  not answered since: {self._trouble}", style="red")
        problems = stats["health"]["problems"]
        for problem in problems[:_MOST_PROBLEMS]:
            said.append(f"\n  {problem}", style="yellow")
        if len(problems) > _MOST_PROBLEMS:
            said.append(f"\n  and {len(problems) - _MOST_PROBLEMS} more: {self._where}/dashboard", style="yellow")
        if not problems and not self._trouble:
            said.append("\n  all is well", style="green")
        return said

    def _numbers(self, width: int) -> Panel:
        each = max(8, (width - 6) // len(self._curves) - 2)
        table = Table.grid(expand=True, padding=(0, 1, 0, 0))
        for _ in self._curves:
            table.add_column(ratio=1, no_wrap=True)
        last = [curve.values[-1] for curve in self._curves]
        table.add_row(*(Text(f"{value:,.1f}" if value % 1 else f"{value:,.0f}", style="bold") for value in last))
        table.add_row(*(Text(curve.spark(each), style="cyan") for curve in self._curves))
        table.add_row(*(Text(curve.name, style=_QUIET) for curve in self._curves))
        return Panel(table, box=box.ROUNDED, border_style=_QUIET)


def _pools(pools: Sequence[dict[str, Any]], width: int) -> Panel:
    """The ones that are nearest to being full, first."""
    shown = [_pool(pool) for pool in pools[:_MOST_POOLS]]
    more = f", {len(pools) - len(shown)} more" if len(pools) > len(shown) else ""
    title = Text(f"pools: slots taken{more}", style=_QUIET)
    return Panel(
        Columns(shown, width=min(_NODE_WIDTH, width - 4), equal=True),
        title=title,
        title_align="left",
        box=box.ROUNDED,
        border_style=_QUIET,
    )


def _pool(pool: dict[str, Any]) -> Text:
    used, slots = pool["slots"] - pool["free"], pool["slots"]
    style = "red" if not pool["free"] else "yellow" if pool["living"] == 1 else "green"
    said = Text.assemble((f"{pool['pair']:<9}", ""), (f"{used}/{slots}", style))
    if pool["living"] == 1:
        said.append(" one node", style="yellow")
    if pool["waiting"]:
        said.append(f" {pool['waiting']} wait", style="red")
    return said


def _nodes(nodes: Sequence[dict[str, Any]], most: int) -> Panel:
    shown: list[Text] = []
    for node in nodes[:most]:
        standing = stands(node).removeprefix("available, ")
        colour = _COLOURS.get(standing, "red")
        name = Text(f"{node['node_id'][:14]:<15}", style="" if standing in {"available", "full"} else colour)
        shown.append(Text.assemble(name, (f"{node['used']}/{node['max']} ", colour), (standing, _QUIET)))
    more = f", {len(nodes) - most} more" if len(nodes) > most else ""
    body: RenderableType = Columns(shown, width=_NODE_WIDTH, equal=True) if shown else Text("no node has registered")
    title = Text(f"{len(nodes)} nodes{more}", style=_QUIET)
    return Panel(body, title=title, title_align="left", box=box.ROUNDED, border_style=_QUIET)


def _look(asked: Operator) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """Numbers and nodes. The numbers can be had without the engine, and say that it is away; the nodes cannot."""
    stats = asked.stats()
    try:
        return stats, asked.nodes()
    except LinguaError:
        if stats["health"]["ok"]:
            raise
        return stats, None


def top(
    every: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The fleet, live in this terminal, until Ctrl-C. With --json: one look, as one object."""
    asked, console = operator(url, token), Console()
    if as_json:
        stats, nodes = _look(asked)
        typer.echo(json.dumps({"stats": stats, "nodes": nodes}))
        return
    watch = Watch(asked.where)
    # The first answer before the screen is taken: whoever gave a wrong address is told in a line.
    watch.see(*_look(asked))
    try:
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            while True:
                live.update(watch.draw(*console.size), refresh=True)
                time.sleep(every)
                try:
                    watch.see(*_look(asked))
                except LinguaError as error:
                    watch.miss(str(error))
    except KeyboardInterrupt:
        return
