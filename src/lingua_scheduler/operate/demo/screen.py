"""What the demo shows while it runs: the fleet and the counts, drawn anew a few times a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lingua_scheduler.core.health import health
from lingua_scheduler.core.records import Standing

if TYPE_CHECKING:
    from lingua_scheduler.core.cell import Ledger
    from lingua_scheduler.operate.demo.tally import Tally

_COLOURS = {
    "available": "green",
    "full": "yellow",
    "suspect": "red",
    "suspect_full": "red",
    "resting": "cyan",
    "stale": "red",
    "lost": "red",
}


def draw(ledgers: list[Ledger], languages: dict[str, tuple[str, ...]], tally: Tally, left_s: float) -> Group:
    """The whole screen."""
    return Group(
        _nodes(ledgers, languages), _counts(tally, left_s), Panel("\n".join(tally.news) or "all quiet", title="news")
    )


def _nodes(ledgers: list[Ledger], languages: dict[str, tuple[str, ...]]) -> Table:
    table = Table(title="Lingua Scheduler: a fleet on an embedded Valkey", expand=True)
    for name in ("node", "languages", "standing", "health", "slots (▒: in limbo)"):
        table.add_column(name)
    for ledger in sorted(ledgers, key=lambda one: (len(one.node_id), one.node_id)):
        node, standing = ledger.record, Standing(ledger.record.standing).name
        taken = "█" * (node.used - node.limbo) + "▒" * node.limbo + "·" * max(0, node.max - node.used)
        table.add_row(
            ledger.node_id,
            " ".join(languages[ledger.node_id]),
            Text(standing, style=_COLOURS.get(standing, "magenta")),
            str(health(node)),
            f"{taken} {node.used}/{node.max}",
        )
    return table


def _counts(tally: Tally, left_s: float) -> Table:
    table = Table(expand=True)
    numbers = {
        "submitted": tally.submitted,
        "in flight": tally.in_flight,
        "finished": tally.heard["FINISHED"],
        "failed": tally.heard["FAILED"],
        "expired": tally.heard["EXPIRED"],
        "refused": sum(tally.refused.values()),
        "retried": tally.retried,
        "nodes died": tally.died,
        "oversold": tally.oversold,
        "p50 / p95 ms": f"{tally.percentile_ms(0.5):.0f} / {tally.percentile_ms(0.95):.0f}",
        "left": f"{max(0.0, left_s):.0f} s",
    }
    for name in numbers:
        table.add_column(name, justify="right")
    table.add_row(*(str(number) for number in numbers.values()))
    return table
