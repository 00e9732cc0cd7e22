"""What all pages keep: two languages that say the same, nobody shut out, nothing cut off."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import Error, expect

from lingua_scheduler.front.handlers.pages import assets

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.browser.conftest import Visitor
    from tests.support.house import House

ROOT = files("lingua_scheduler") / "front" / "pages"
WORDS = sorted(name for name in assets() if name.rpartition("/")[2] == "words.js")
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
WIDTHS = (360, 768, 1280, 1920)


async def faults(page: Page) -> list[str]:
    """What axe finds that would keep somebody out."""
    await page.evaluate(AXE)
    found: dict[str, Any] = await page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


async def talked(house: House, visitor: Visitor, query: str = "", **how: Any) -> Page:
    """A playground in which something was said, something failed, and everything is open."""
    page = await visitor.open(f"{house.url}/playground?src=en&tgt=zh{query}", **how)
    say = page.locator(".sentence button")
    async with house.node() as node:
        await node.register(slots=2)
        await say.click()
        await node.result(
            await node.job(), tts_audio="AAAA" * 100, extra={"service_timings": {"asr_ms": 200, "nmt_ms": 90}}
        )
        await expect(page.locator("[data-end=result]")).to_be_visible()
    await say.click()
    await expect(page.locator("[data-end=missing]")).to_be_visible()
    await page.locator("#src").fill("klingonish")
    await page.locator("#src").press("Tab")
    await say.click()
    await expect(page.locator(".troubles .trouble")).to_be_visible()
    for summary in await page.locator("main summary").all():
        await summary.click()
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nobody_is_shut_out_of_the_playground(house: House, visitor: Visitor, scheme: str) -> None:
    empty = await visitor.open(f"{house.url}/playground", color_scheme=scheme)
    await expect(empty.locator(".hint")).to_be_visible()
    assert await faults(empty) == []
    page = await talked(house, visitor, "&lang=zh" if scheme == "dark" else "", color_scheme=scheme)
    assert await faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nobody_is_shut_out_of_the_list_of_what_can_be_asked(house: House, visitor: Visitor, scheme: str) -> None:
    page = await visitor.open(f"{house.url}/docs", color_scheme=scheme)
    await expect(page.get_by_role("heading", name="/ws/session")).to_be_visible()
    assert await faults(page) == []


async def test_nothing_is_cut_off_from_a_small_phone_to_a_wide_screen(house: House, visitor: Visitor) -> None:
    page = await talked(house, visitor)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_everything_can_be_reached_by_the_keyboard_and_shows_that_it_is(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/playground")
    await expect(page.locator(".hint")).to_be_visible()
    reached: list[str] = []
    while not reached or reached[-1] != "snippet":
        await page.keyboard.press("Tab")
        reached.append(
            await page.evaluate("""() => {
                const at = document.activeElement, style = getComputedStyle(at.closest("label.button") ?? at);
                if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) throw new Error(at.outerHTML);
                return at.id || at.textContent.trim() || at.type;
            }""")
        )
        assert len(reached) < 50, reached
    assert reached[0] == "To the content"
    assert {"src", "tgt", "Talk", "sentence", "Say it", "file", "Token", "Copy", "Python"} <= set(reached)
    await page.get_by_role("tab", name="Python").focus()
    await page.keyboard.press("ArrowLeft")
    await expect(page.get_by_role("tab", name="curl")).to_be_focused()
    await expect(page.locator("#snippet")).to_contain_text("/v1/dispatch/f2f")


async def test_a_chart_is_drawn_though_a_page_may_run_nothing_of_others(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/docs")
    await page.evaluate("""async () => {
        const {default: UPlot} = await import("/assets/vendor/uplot.js");
        const series = [{}, {label: "<img src=x onerror='window.hacked = 1'>", stroke: "red"}];
        new UPlot({width: 400, height: 200, series}, [[1, 2, 3], [3, 1, 2]], document.querySelector("main"));
    }""")
    await expect(page.locator(".uplot canvas")).to_be_visible()
    assert await page.locator("img").count() == 0
    assert await page.evaluate("window.hacked") is None


@pytest.mark.parametrize("mistake", ["document.body.innerHTML = '<b>'", "document.write('<b>')"])
async def test_no_text_becomes_markup_though_somebody_made_a_mistake(
    house: House, visitor: Visitor, mistake: str
) -> None:
    visitor.forgiven = ("TrustedHTML",)
    page = await visitor.open(f"{house.url}/playground")
    with pytest.raises(Error, match="TrustedHTML"):
        await page.evaluate(f"() => {{ {mistake}; }}")


@pytest.mark.parametrize("name", WORDS)
async def test_both_languages_have_every_text(house: House, visitor: Visitor, name: str) -> None:
    page = await visitor.open(f"{house.url}/docs")
    words: dict[str, dict[str, str]] = await page.evaluate(
        "async path => (await import(path)).default", f"{house.url}/assets/{name}"
    )
    assert set(words) == {"en", "zh"}
    assert list(words["en"]) == list(words["zh"])
    for key, text in words["en"].items():
        assert text, key
        assert words["zh"][key], key
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", words["zh"][key])), key
    folder = name.rpartition("/")[0]
    said = "".join(
        ROOT.joinpath(other).read_text(encoding="utf-8")
        for other in assets()
        if other.endswith(".js") and other.rpartition("/")[0] == folder and other != name
    )
    for key in words["en"]:
        stem = key.rpartition(".")[0]
        assert f'"{key}"' in said or (stem and f"`{stem}.${{" in said), f"nobody says {key}"


async def test_every_text_that_the_modules_name_is_in_the_dictionaries(house: House, visitor: Visitor) -> None:
    page = await visitor.open(f"{house.url}/docs")
    known: set[str] = set()
    for name in WORDS:
        known |= set(
            await page.evaluate(
                "async path => Object.keys((await import(path)).default.en)", f"{house.url}/assets/{name}"
            )
        )
    for name in assets():
        if name.endswith(".js") and not name.startswith("vendor/"):
            text = ROOT.joinpath(name).read_text(encoding="utf-8")
            assert set(re.findall(r'\bsay\("([^"]+)"', text)) <= known, name
