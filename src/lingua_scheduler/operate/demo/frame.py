"""What there is to see of the demo at one instant, whoever shows it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lingua_scheduler.operate.demo.begin import Show
    from lingua_scheduler.operate.demo.tally import Tally
    from lingua_scheduler.views.fleet import Fleet
    from lingua_scheduler.views.slots import NodeSlots

_PULSE_S: Final = 24


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server is: its URL, its process, and those of its instances."""

    url: str
    server_pid: int
    instance_pids: tuple[int, ...] = ()

    @property
    def links(self) -> dict[str, str]:
        """Pages to open while it runs."""
        return {
            "dashboard": f"{self.url}/dashboard",
            "playground": f"{self.url}/playground",
            "stats": f"{self.url}/api/v1/stats",
            "docs": f"{self.url}/docs",
            "explain": f"{self.url}/v1/explain?src=en&tgt=zh",
        }


class Pulse:
    """How many were done in each of the last seconds."""

    def __init__(self) -> None:
        self._seconds: deque[int] = deque([0] * _PULSE_S, maxlen=_PULSE_S)
        self._second = 0
        self._done = 0

    def see(self, elapsed_s: float, done: int) -> None:
        """So many are done by now."""
        for _ in range(int(elapsed_s) - self._second):
            self._seconds.append(0)
        self._second = int(elapsed_s)
        self._seconds[-1] += done - self._done
        self._done = done

    @property
    def seconds(self) -> tuple[int, ...]:
        """Of whole seconds, the latest last."""
        return tuple(self._seconds)[:-1]

    @property
    def per_second(self) -> float:
        """Over the last five of them."""
        return sum(self.seconds[-5:]) / 5


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture."""

    show: Show
    place: Place
    elapsed_s: float
    is_draining: bool
    tally: Tally
    fleet: Fleet
    nodes: list[NodeSlots]
    languages: dict[str, tuple[str, ...]]
    pulse: Pulse
    news: list[str] = field(default_factory=list)

    @property
    def dispatched(self) -> int:
        """How often a job got a node: first tries and further ones."""
        return self.fleet.counts.reserved
