"""How much is written down, by module, and for how long."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import TYPE_CHECKING

import pytest

from lingua_scheduler.config import ConfigError, load
from lingua_scheduler.config.logs import Logs
from lingua_scheduler.core.refusal import Invalid
from lingua_scheduler.logs.levels import ROOT, Levels, begin_with
from tests.support.logs import told

if TYPE_CHECKING:
    from collections.abc import Iterator

DOOR = f"{ROOT}.front.door"


def level(module: str) -> int:
    return logging.getLogger(module).getEffectiveLevel()


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = logging.getLogger(ROOT).level
    yield
    for module in (ROOT, DOOR, f"{ROOT}.loops", f"{ROOT}.front"):
        logging.getLogger(module).setLevel(logging.NOTSET)
    logging.getLogger(ROOT).setLevel(before)


@pytest.fixture
def levels() -> Levels:
    settings = Logs(level="warning", levels=("loops=error",))
    begin_with(settings)
    return Levels(settings)


async def test_a_module_is_set_and_set_back(levels: Levels, caplog: pytest.LogCaptureFixture) -> None:
    assert levels.set("front.door", "debug", who="ops") == DOOR
    assert (level(DOOR), level(f"{ROOT}.front.hints")) == (logging.DEBUG, logging.WARNING)
    assert levels.now() == {ROOT: ("warning", None), f"{ROOT}.loops": ("error", None), DOOR: ("debug", None)}
    levels.set(DOOR, "default", who="ops")
    assert level(DOOR) == logging.WARNING
    said = [(one["module_set"], one["level_set"], one["who"]) for one in told(caplog, "log_level")]
    assert said == [(DOOR, "debug", "ops"), (DOOR, "default", "ops")]


async def test_default_is_what_the_settings_have(levels: Levels) -> None:
    levels.set("loops", "debug")
    levels.set("loops", "default")
    assert level(f"{ROOT}.loops.reaper") == logging.ERROR


async def test_what_is_in_a_module_follows_it(levels: Levels) -> None:
    levels.set("", "debug")
    assert (level(DOOR), level(f"{ROOT}.loops.reaper")) == (logging.DEBUG, logging.ERROR)


async def test_of_a_module_of_which_nothing_is_said_that_counts_which_it_is_in(levels: Levels) -> None:
    assert levels.of("front.door") == {DOOR: ("warning", None)}
    assert levels.of(f"{ROOT}.loops.loop") == {f"{ROOT}.loops.loop": ("error", None)}
    levels.set("front", "debug")
    assert levels.of("front.door") == {DOOR: ("debug", None)}
    levels.set("front.door", "info")
    assert levels.of("front") == {f"{ROOT}.front": ("debug", None), DOOR: ("info", None)}
    assert levels.of("") == levels.now()
    for name in ("door", "nothing", "front.doo"):
        with pytest.raises(Invalid):
            levels.of(name)


async def test_for_a_while(levels: Levels) -> None:
    levels.set("front", "debug", 0.01)
    (left,) = [seconds for _, seconds in levels.now().values() if seconds is not None]
    assert 0 <= left <= 0.01
    async with asyncio.timeout(5):
        while level(DOOR) == logging.DEBUG:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
    assert f"{ROOT}.front" not in levels.now()


async def test_what_is_said_later_counts(levels: Levels) -> None:
    """The end of what was said before does not end it."""
    levels.set("front", "debug", 0.005)
    levels.set("front", "info")
    await asyncio.sleep(0.02)
    assert level(DOOR) == logging.INFO


async def test_the_settings_read_again_end_what_was_said(levels: Levels) -> None:
    levels.set("front.door", "debug", 60)
    levels.begin_anew(Logs(level="info", levels=("front=error",)))
    assert (level(DOOR), level(f"{ROOT}.loops.reaper")) == (logging.ERROR, logging.INFO)
    assert levels.now() == {ROOT: ("info", None), f"{ROOT}.front": ("error", None)}


async def test_an_end_leaves_it_as_the_settings_have_it(levels: Levels) -> None:
    levels.set("front.door", "debug", 60)
    levels.set("loops", "debug")
    levels.close()
    assert (level(DOOR), level(f"{ROOT}.loops")) == (logging.WARNING, logging.ERROR)


@pytest.mark.parametrize(
    ("module", "name", "seconds"),
    [
        ("websockets", "debug", None),
        ("front.nobody", "debug", None),
        ("front\n", "debug", None),
        ("front", "loud", None),
        ("front", "debug", 0.0),
        ("front", "debug", -1.0),
        ("front", "debug", 1e9),
        ("front", "debug", float("nan")),
    ],
)
async def test_what_makes_no_sense_changes_nothing(
    levels: Levels, module: str, name: str, seconds: float | None
) -> None:
    with pytest.raises(Invalid):
        levels.set(module, name, seconds)
    assert levels.changed == {}
    assert "websockets" not in levels.now()


@pytest.mark.parametrize("value", ["front", "front=loud", "front=debug; x", "=debug", "front.=debug"])
def test_settings_that_make_no_sense_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"logs\.levels"):
        load(env={"LINGUA_LOGS__LEVELS": value})


@pytest.mark.parametrize(
    "module", ["front.dor", "door", "front.door.knob", "no.body", "os", "lingua_scheduler", ".", ".."]
)
def test_settings_of_a_module_that_is_not_there_are_refused(module: str) -> None:
    with pytest.raises(ConfigError, match=rf"logs\.levels: '{re.escape(module)}=debug' names no module"):
        load(env={"LINGUA_LOGS__LEVELS": f"front=info, {module}=debug"})


def test_settings_may_be_of_a_module_that_is_not_loaded_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"{ROOT}.operate.new", raising=False)
    levels = ("operate.new=debug", f"{ROOT}.front.door=error")
    assert load(env={"LINGUA_LOGS__LEVELS": ",".join(levels)}).settings.logs.levels == levels
    assert f"{ROOT}.operate.new" not in sys.modules


def test_settings_come_from_the_environment() -> None:
    env = {"LINGUA_LOGS__LEVEL": "error", "LINGUA_LOGS__LEVELS": "front=debug, loops=info"}
    logs = load(env=env).settings.logs
    assert (logs.level, logs.levels) == ("error", ("front=debug", "loops=info"))
