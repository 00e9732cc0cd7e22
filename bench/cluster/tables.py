"""The figures of several instances, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.cluster.crossing import PERCENTS

if TYPE_CHECKING:
    from rich.console import Console


def show(found: dict[str, Any], console: Console) -> None:
    """A table of each part that was measured."""
    if found["complete_job_ms"] is not None:
        table = Table("a complete job, ms", *(f"p{percent}" for percent in PERCENTS))
        for way, times in found["complete_job_ms"].items():
            table.add_row(f"at the {way} instance as its node", *(str(took) for took in times.values()))
        table.caption = f"added by the other instance: {found['cross_instance_added_p50_ms']} ms in the median (≤ 3)"
        console.print(table)
    shown = {"complete_job_ms", "cross_instance_added_p50_ms"}
    plain = rows({name: value for name, value in found.items() if name not in shown})
    if plain.row_count:
        console.print(plain)


def rows(found: dict[str, Any]) -> Table:
    """A figure in each row, of those that there are."""
    table = Table("what", "")
    for name, value in found.items():
        if value is not None and name != "seconds":
            table.add_row(name.replace("_", " "), _text(value))
    return table


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return f"{value:,}" if isinstance(value, int | float) else str(value)
