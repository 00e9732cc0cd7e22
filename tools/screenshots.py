"""`python -m tools.screenshots`: run the demo, visit its pages, and keep what they show in docs/images."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from playwright.async_api import async_playwright

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
LINGUA: Final = Path(sys.executable).parent / "lingua"
DEMO: Final = ("demo", "--json", "--callers", "1", "--failure-rate", "0")
#: Each picture: how the visitor's browser is.
VISITS: Final[dict[str, dict[str, Any]]] = {
    "playground": {"color_scheme": "light", "locale": "en-GB", "viewport": {"width": 1280, "height": 1120}},
    "playground-zh": {"color_scheme": "dark", "locale": "zh-CN", "viewport": {"width": 1280, "height": 1120}},
    "dashboard": {"color_scheme": "light", "locale": "en-GB", "viewport": {"width": 1400, "height": 1500}},
    "dashboard-zh": {"color_scheme": "dark", "locale": "zh-CN", "viewport": {"width": 1400, "height": 1500}},
}
#: The curves of the dashboard need a while.
CURVES_S: Final = 45


@asynccontextmanager
async def fleet() -> AsyncIterator[str]:
    """A demo that is ready; its URL."""
    process = await asyncio.create_subprocess_exec(LINGUA, *DEMO, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        yield json.loads(await process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGINT)
        await process.communicate()


async def talk(page: Page, url: str) -> None:
    """Say two sentences, and look at the answers."""
    await page.goto(f"{url}/playground?src=en&tgt=zh")
    await page.get_by_role("button", name="en → zh").wait_for()
    for number, sentence in enumerate(("A coffee, please", "Good morning")):
        await page.locator("#sentence").fill(sentence)
        await page.locator(".sentence button").click()
        await page.locator(f"[data-index='{number}'][data-end=result]").wait_for()
    await page.locator(".moments summary").first.click()
    await page.mouse.move(0, 0)
    await page.evaluate("scrollTo({top: 0, behavior: 'instant'})")


async def look(page: Page, url: str) -> None:
    """Look at the fleet while a node dies."""
    await page.goto(f"{url}/dashboard")
    await page.locator("[data-node]").first.wait_for()
    await asyncio.sleep(CURVES_S)
    await (await asyncio.create_subprocess_exec(LINGUA, "nodes", "kill", "sim-3", "--url", url)).wait()
    await page.locator("[data-node=sim-3][data-colour=bad]").wait_for()


async def main() -> None:
    """Take them all."""
    browser_path = next(path for name in ("chromium", "google-chrome") if (path := shutil.which(name)))
    async with fleet() as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path, chromium_sandbox=os.geteuid() != 0)
        for name, how in VISITS.items():
            page = await browser.new_page(**how)
            await (look if name.startswith("dashboard") else talk)(page, url)
            await page.screenshot(path=IMAGES / f"{name}.png")
            print(f"{name}.png")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
