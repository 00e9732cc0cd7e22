"""The figures of the doors, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.contest import OURS, REFERENCE

if TYPE_CHECKING:
    from rich.console import Console

_DOORS = ("livez", "heartbeat", "http_job", "socket_job", "session_job")


def show(found: dict[str, Any], console: Console) -> None:
    """A table of each part that was measured."""
    for table in (_doors(found), _dispatch(found), _contest(found), _idle(found)):
        if table is not None:
            console.print(table)


def _doors(found: dict[str, Any]) -> Table | None:
    table = Table("what", "per CPU-second of the server", "server µs", "engine µs", title="The doors")
    for name in _DOORS:
        if name in found:
            table.add_row(name.replace("_", " "), *(f"{value:,}" for value in found[name].values()))
    return table if table.row_count else None


def _dispatch(found: dict[str, Any]) -> Table | None:
    if "dispatch_cpu_us" not in found:
        return None
    table = Table("POST /v1/dispatch/f2f", "per CPU-second of the server", "server µs", "engine µs", title="Dispatch")
    rates = {"ours": found["dispatch_req_per_server_cpu_s"], "fastapi": found["fastapi_req_per_server_cpu_s"]}
    titles = {"ours": "ours, and delivered to the node's socket", "fastapi": "FastAPI + redis-py, not delivered"}
    for name, spent in found["dispatch_cpu_us"].items():
        table.add_row(titles[name], f"{rates[name]:,}", f"{spent['server']:,}", f"{spent['engine']:,}")
    table.caption = f"{found['vs_fastapi_ratio']} × (≥ 3); the aim is 10,000"
    return table


def _contest(found: dict[str, Any]) -> Table | None:
    if "jobs_per_s_by_way" not in found:
        return None
    heads = ("jobs/s", "p50 ms", "p90 ms", "p99 ms", "CPU µs of each process for one job", "version")
    table = Table("complete jobs", *heads, title="Beside the peers")
    latency = found["latency_ms"]
    for way, speed in found["jobs_per_s_by_way"].items():
        times = [_text(value) for value in latency.values()] if way == "http" else [""] * 3
        table.add_row(f"{OURS}, {way}", _text(speed), *times, _spent(found["cpu_us_per_job"][way]), "")
    table.add_section()
    for name, told in found["peers"].items():
        _add(table, name, told)
    if found["nats"]:
        table.add_section()
        _add(table, f"{REFERENCE}, the upper reference", found["nats"])
    table.caption = (
        f"jobs/s: {_text(found['vs_best_peer_ratio'])} × the best peer (≥ 3), "
        f"{_text(found['vs_arq_ratio'])} × arq (≥ 8), "
        f"{_text(found['vs_nats_ratio'])} × NATS; p50 and p90 lowest in {_text(found['latency_rounds_won'])} of "
        f"{found['latency_rounds']} rounds (≥ 4); {_text(found['jobs_per_scheduler_cpu_s'])} jobs per "
        "scheduler-CPU-second (the aim is 10,000)"
    )
    return table


def _add(table: Table, name: str, told: dict[str, Any]) -> None:
    figures = (told["jobs_per_s"], told["p50_ms"], told["p90_ms"], told["p99_ms"])
    table.add_row(name, *map(_text, figures), _spent(told["cpu_us"]), told["version"])


def _idle(found: dict[str, Any]) -> Table | None:
    if found["bytes_per_socket"] is None:
        return None
    table = Table(f"{found['idle_sockets']:,} idle node sockets", "", title="Idle")
    table.add_row("memory of the server for each", f"{found['bytes_per_socket']:,} bytes")
    for process, share in found["idle_cpu_share"].items():
        table.add_row(f"CPU of the {process} while they beat every 15 s", f"{share:.1%} of a core")
    return table


def _spent(cpu_us: dict[str, Any]) -> str:
    return ", ".join(f"{process} {_text(spent)}" for process, spent in cpu_us.items())


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"
