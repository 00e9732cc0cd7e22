"""`python -m tools.picture`: run the demo for a while and keep what its terminal showed, as docs/images/demo.svg."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from lingua_scheduler.operate.demo.begin import Show, begin
from lingua_scheduler.operate.demo.picture import draw
from lingua_scheduler.operate.demo.screen import Screen

if TYPE_CHECKING:
    from lingua_scheduler.operate.demo.frame import Frame, Place

FILE: Final = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
WIDTH: Final = 104
HEIGHT: Final = 30
LABEL: Final = "A terminal with the demo: numbers, times of each stage, what was just said, every node with its slots"
SECONDS: Final = 40
THEME: Final = TerminalTheme(
    (22, 27, 34),
    (214, 222, 235),
    [
        (22, 27, 34), (239, 108, 117), (126, 211, 133), (236, 196, 104),
        (110, 168, 254), (198, 146, 233), (86, 194, 214), (214, 222, 235),
    ],
    [
        (118, 131, 150), (239, 108, 117), (126, 211, 133), (236, 196, 104),
        (110, 168, 254), (198, 146, 233), (86, 194, 214), (255, 255, 255),
    ],
)  # fmt: skip


class Recorder(Screen):
    """Keeps the last picture before the draining begins."""

    def __init__(self) -> None:
        self._console = Console(
            record=True, width=WIDTH, force_terminal=True, color_system="truecolor", file=io.StringIO()
        )

    def ready(self, show: Show, place: Place) -> None:
        print(f"{show.nodes} nodes at {place.url}, for {show.duration_s:g} s")

    def see(self, frame: Frame) -> None:
        if not frame.is_draining:
            self._console.export_text(clear=True)
            self._console.print(draw(frame, WIDTH, HEIGHT))

    def end(self, report: dict[str, Any], wrong: list[str]) -> None:
        if not wrong:
            svg = self._console.export_svg(title="lingua demo", theme=THEME, unique_id="demo")
            # Nothing is fetched from elsewhere to show it.
            svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
            FILE.write_text(svg.replace("<svg ", f'<svg role="img" aria-label="{LABEL}" ', 1), encoding="utf-8")
            print(f"{FILE.name}: {report['done']} done")


if __name__ == "__main__":
    raise SystemExit(asyncio.run(begin(Show(duration_s=SECONDS), as_json=False, screen=Recorder())))
