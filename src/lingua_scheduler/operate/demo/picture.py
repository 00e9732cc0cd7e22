"""A frame, drawn for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lingua_scheduler.core.records import Standing
from lingua_scheduler.operate.demo.plan import processes_for
from lingua_scheduler.operate.demo.tally import STAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from lingua_scheduler.operate.demo.frame import Frame
    from lingua_scheduler.operate.demo.tally import Said
    from lingua_scheduler.views.slots import NodeSlots

#: So many are shown.
NEWS: Final = 2
_QUIET: Final = "bright_black"
_ACCENT: Final = "cyan"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_BAR: Final = 18
_PULSE: Final = 20
_LEFT: Final = 48
#: Below that there is no place for what is said.
_NARROW: Final = 76
#: Wider is not easier to read.
_WIDEST: Final = 112
#: What a node needs that is shown by its name, and how many rows everything else needs.
_NODE_WIDTH: Final = 24
_OTHER_ROWS: Final = 20
_COLOURS: Final = {
    Standing.available: "green",
    Standing.full: "yellow",
    Standing.resting: "blue",
    Standing.suspect: "magenta",
    Standing.suspect_full: "magenta",
}
_NUMBERS: Final = ("dispatched", "in flight", "done", "failed", "retried", "waiting", "done each second")
_STAGE_NAMES: Final = {"asr": "hear", "nmt": "translate", "tts": "speak", "rest": "all else", "answer": "answer"}


def draw(frame: Frame, width: int, height: int) -> RenderableType:
    """The whole screen, for a terminal of this size."""
    width = min(width, _WIDEST)
    screen = Table.grid(expand=True)
    screen.add_column(overflow="fold")
    screen.width = width
    middle = _stages(frame) if width < _NARROW else _side_by_side(_stages(frame), _latest(frame.tally.latest))
    nodes = _nodes(frame, most=max(1, height - _OTHER_ROWS) * ((width - 4) // _NODE_WIDTH))
    for part in (_head(frame), _numbers(frame), middle, nodes, _news(frame.news), _links(frame)):
        screen.add_row(part)
    return screen


def clock(seconds: float) -> str:
    """`1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _side_by_side(left: RenderableType, right: RenderableType) -> Table:
    both = Table.grid(expand=True, padding=(0, 1, 0, 0))
    both.add_column(width=_LEFT)
    both.add_column(ratio=1)
    both.add_row(left, right)
    return both


def _head(frame: Frame) -> Table:
    show, hosts, instances = frame.show, processes_for(frame.show.nodes), frame.show.instances
    servers = f"{instances} instance{'s' * (instances > 1)}"
    nodes = f"{show.nodes} nodes in {hosts} process{'es' * (hosts > 1)}"
    left = Text.assemble(
        (" Lingua Scheduler ", f"bold reverse {_ACCENT}"),
        (f"  {servers}, {nodes}, {show.callers} callers, seed {show.seed}", _QUIET),
    )
    if frame.is_draining:
        right = Text(f"draining: {frame.tally.open} to be answered; Ctrl-C again stops at once", style="yellow")
    else:
        until = f" of {clock(show.duration_s)}" if show.duration_s else ""
        right = Text.assemble((clock(frame.elapsed_s), "bold"), (f"{until}  Ctrl-C drains", _QUIET))
    head = Table.grid(expand=True)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right", no_wrap=True)
    head.add_row(left, right)
    return head


def _numbers(frame: Frame) -> Panel:
    tally, fleet = frame.tally, frame.fleet
    numbers = Table.grid(expand=True, padding=(0, 1, 0, 0))
    for name in _NUMBERS[:-1]:
        numbers.add_column(ratio=max(len(name), 7), no_wrap=True)
    numbers.add_column(width=_PULSE)
    values = (
        (frame.dispatched, "bold"),
        (fleet.in_flight, f"bold {_ACCENT}"),
        (tally.done, "bold green"),
        (tally.failed, "bold red" if tally.failed else "bold"),
        (fleet.counts.retried, "bold yellow" if fleet.counts.retried else "bold"),
        (fleet.waiting, "bold yellow" if fleet.waiting else "bold"),
    )
    pulse = frame.pulse
    rate = Text(f"{pulse.per_second:>4.0f} ", style="bold")
    rate.append(_spark(pulse.seconds[len(rate) - _PULSE :]), style="green")
    numbers.add_row(*(Text(f"{value:,}", style=style) for value, style in values), rate)
    numbers.add_row(*(Text(name, style=_QUIET) for name in _NUMBERS))
    return Panel(numbers, box=box.ROUNDED, border_style=_QUIET)


def _spark(seconds: Sequence[int]) -> str:
    most = max(*seconds, 1)
    return "".join(_LEVELS[(len(_LEVELS) - 1) * number // most] for number in seconds)


def _stages(frame: Frame) -> Panel:
    table = Table(box=None, expand=True, padding=(0, 1), show_edge=False, header_style=_QUIET)
    table.add_column("stage", min_width=9)
    table.add_column("p50", justify="right")
    table.add_column("p95", justify="right")
    table.add_column(Text("ms", style=_QUIET), width=_BAR)
    longest = max(1, frame.tally.percentile_ms("answer", 0.95))
    for stage in STAGES:
        p50, p95 = (frame.tally.percentile_ms(stage, share) for share in (0.50, 0.95))
        is_all = stage == STAGES[-1]
        solid, light = (round(_BAR * min(ms, longest) / longest) for ms in (p50, p95))
        bar = Text.assemble(("━" * solid, "green" if is_all else _ACCENT), ("─" * (light - solid), _QUIET))
        style = "bold" if is_all else ""
        table.add_row(Text(_STAGE_NAMES[stage], style=style), Text(str(p50), style=style), Text(str(p95)), bar)
    return _panel(table, "how long it took")


def _latest(latest: Sequence[Said]) -> Panel:
    table = Table.grid(expand=True, padding=(0, 1, 0, 0))
    table.add_column(width=5, style=_ACCENT)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis", style="bold")
    shown = list(latest)[-len(STAGES) - 1 :]
    for said in shown:
        table.add_row(f"{said.src}→{said.tgt}", said.text, said.translated)
    for _ in range(len(STAGES) + 1 - len(shown)):
        table.add_row()
    return _panel(table, "just said")


def _nodes(frame: Frame, most: int) -> Panel:
    """Each by its name, or, if they are more than there is room for, as a block that is as high as its load."""
    slots = frame.fleet.slots
    title = f"{len(frame.nodes)} of {frame.show.nodes} nodes, {slots.used} of {slots.total} slots taken"
    ordered = sorted(frame.nodes, key=lambda node: (len(node.node_id), node.node_id))
    if not ordered:
        return _panel(Text("the first ones are joining …", style=_QUIET), title)
    if len(ordered) > most:
        blocks = Text()
        for node in ordered:
            blocks.append(_LEVELS[(len(_LEVELS) - 1) * min(node.used, node.max) // node.max], style=_colour(node))
        return _panel(blocks, title)
    return _panel(Columns([_node(node, frame) for node in ordered], expand=True, equal=True), title)


def _node(node: NodeSlots, frame: Frame) -> Text:
    taken = min(node.used, node.max)
    standing = node.standing.name.replace("_", " ")
    languages = " ".join(frame.languages.get(node.node_id, ()))
    is_usual = node.standing in {Standing.available, Standing.full}
    return Text.assemble(
        (f"{node.node_id:<7}", ""),
        ("■" * taken, _colour(node)),
        ("□" * (node.max - taken), _colour(node) if taken or is_usual else _QUIET),
        " " * max(1, 5 - node.max),
        (f"{languages:<9}" if is_usual else f"{standing:<9}", _QUIET if is_usual else _colour(node)),
    )


def _colour(node: NodeSlots) -> str:
    return _COLOURS.get(node.standing, "red")


def _news(news: Sequence[str]) -> Group:
    """The last ones, and an empty line; as high when there are none."""
    lines = [*news, *[""] * NEWS][:NEWS]
    return Group(*(Text(f"  {line}", style=_QUIET, no_wrap=True, overflow="ellipsis") for line in lines), Text())


def _links(frame: Frame) -> Text:
    """Whole, as far as a terminal goes that cannot follow links: the server, and what there is to be seen of it."""
    base = frame.place.url
    text = Text(f"  {base}", style="bold", no_wrap=True, overflow="ellipsis")
    for url in frame.place.links.values():
        text.append("  ")
        text.append(url.removeprefix(base), style=f"not bold link {url} {_ACCENT}")
    return text


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=Text(title, style=_QUIET), title_align="left", box=box.ROUNDED, border_style=_QUIET)
