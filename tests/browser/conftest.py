"""A real browser whose microphone plays a tone, a page that may call the scheduler, and visits to pages of its own."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import struct
import wave
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.async_api import async_playwright, expect

from tests.support.people import PATIENCE_S
from tests.support.programs import find

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page

TONE_HZ: Final = 440
PAGE: Final = b"<!doctype html><title>A page</title>"

expect.set_options(timeout=PATIENCE_S * 1000)


def find_browser() -> str:
    return find("chromium", "chromium", "chromium-browser", "google-chrome")


def write_tone(path: Path) -> None:
    """A second of it, which the browser plays again and again."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        samples = (round(20_000 * math.sin(2 * math.pi * TONE_HZ * at / 48_000)) for at in range(48_000))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))


def frequency(audio: bytes) -> float:
    """Of a tone in 16-bit samples at 16 kHz, by how often it crosses zero."""
    samples = struct.unpack(f"<{len(audio) // 2}h", audio)
    crossings = sum((one < 0) != (other < 0) for one, other in itertools.pairwise(samples))
    return float(crossings / 2 / (len(samples) / 16_000))


@pytest.fixture(scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    program = find_browser()
    tone = tmp_path_factory.mktemp("microphone") / "tone.wav"
    write_tone(tone)
    flags = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={tone}",
        "--autoplay-policy=no-user-gesture-required",
    ]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=flags, chromium_sandbox=os.geteuid() != 0
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def serve_page() -> AsyncIterator[str]:
    """An empty page on a port of its own."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + PAGE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """It belongs to another origin, as that of an app does. What it throws and nobody catches fails the test."""
    wrong: list[str] = []
    async with serve_page() as url:
        page = await browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        await page.goto(url)
        yield page
        await page.close()
    assert wrong == []


class Visitor:
    """Somebody with a browser that has never been here. Whatever goes wrong in his pages is in `wrong`."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.wrong: list[str] = []
        #: What a browser says of a network that fails, where a test lets it.
        self.forgiven: tuple[str, ...] = ()

    async def open(self, url: str, **how: Any) -> Page:
        """A page, in a browser of its own, shown."""
        context = await self._browser.new_context(**({"locale": "en-GB"} | how))
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_S * 1000)
        await context.grant_permissions(["microphone", "clipboard-read", "clipboard-write"])
        page = await context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._hear)
        await page.goto(url)
        await page.wait_for_selector("main")
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(part in message.text for part in self.forgiven):
            self.wrong.append(message.text)

    async def leave(self) -> None:
        for context in self._contexts:
            await context.close()


@pytest.fixture
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    """At the end nothing was wrong."""
    visitor = Visitor(browser)
    yield visitor
    await visitor.leave()
    assert visitor.wrong == []
