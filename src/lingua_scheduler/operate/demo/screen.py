"""Who looks on: a person at a terminal, a file, or a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.live import Live

from lingua_scheduler.operate.demo.picture import clock, draw

if TYPE_CHECKING:
    from lingua_scheduler.operate.demo.begin import Show
    from lingua_scheduler.operate.demo.frame import Frame, Place

#: Whoever reads lines wants one so often.
_LINE_S: Final = 5.0


class Screen:
    """Told what happens, in this order: it is ready, frame after frame, the end. This one shows nothing."""

    def ready(self, show: Show, place: Place) -> None:
        """The server serves; nodes are about to join."""

    def see(self, frame: Frame) -> None:
        """How it is now, several times a second."""

    def end(self, report: dict[str, Any], wrong: list[str]) -> None:
        """All is over; `wrong` is what should not be so."""

    def close(self) -> None:
        """Nothing more will come, whether there was an end or not."""


class Lines(Screen):
    """Plain lines, one now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = _LINE_S
        self._is_draining = False

    def ready(self, show: Show, place: Place) -> None:
        self._say(f"ready: {place.url} ({show.nodes} nodes are joining, {show.callers} callers; Ctrl-C drains)")
        self._say("  ".join(place.links.values()))

    def see(self, frame: Frame) -> None:
        if frame.is_draining and not self._is_draining:
            self._is_draining = True
            self._say(f"draining: {frame.tally.open} to be answered; once more, and it stops at once")
        if frame.elapsed_s < self._next_s:
            return
        self._next_s = frame.elapsed_s + _LINE_S
        tally, fleet = frame.tally, frame.fleet
        times = ", ".join(f"{name} {ms['p50']}/{ms['p95']}" for name, ms in tally.stages().items())
        self._say(
            f"{clock(frame.elapsed_s)}  {len(frame.nodes)} nodes, {frame.dispatched} dispatched, "
            f"{fleet.in_flight} in flight, {tally.done} done, {tally.failed} failed; ms p50/p95: {times}"
        )

    def end(self, report: dict[str, Any], wrong: list[str]) -> None:
        for line in wrong:
            self._say(f"wrong: {line}", "red")
        numbers = report | report["server"] | {"failed": report["failed"]}
        self._say(
            "{submitted} submitted, {ended} ended: {done} done, {failed} failed; "
            "the server dispatched {dispatched}, {retried} of them again.".format(**numbers)
        )
        if report["others"]:
            self._say(f"{report['others']} more jobs came from elsewhere.")
        if not wrong:
            self._say("The auditor found nothing, and everything adds up.", "green")

    def _say(self, line: str, style: str = "") -> None:
        self._console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


class Terminal(Lines):
    """A picture that moves."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(console=console, auto_refresh=False)

    def see(self, frame: Frame) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(draw(frame, *self._console.size), refresh=True)

    def close(self) -> None:
        self._live.stop()


class Json(Screen):
    """One object when it is ready and one at the end."""

    def ready(self, show: Show, place: Place) -> None:
        who = {"nodes": show.nodes, "callers": show.callers, "seed": show.seed}
        pids = {"server_pid": place.server_pid, "instance_pids": place.instance_pids}
        self._say(event="ready", url=place.url, links=place.links, **pids, **who)

    def end(self, report: dict[str, Any], wrong: list[str]) -> None:
        self._say(event="ended", **report, wrong=wrong)

    def _say(self, **what: object) -> None:
        print(json.dumps(what, ensure_ascii=False), flush=True)  # noqa: T201 - the lines are the contract


def screen_for(*, as_json: bool) -> Screen:
    """The one that fits whoever reads standard output."""
    if as_json:
        return Json()
    console = Console()
    return Terminal(console) if console.is_terminal and not console.is_dumb_terminal else Lines(console)
