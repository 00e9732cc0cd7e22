"""Trying a handler without a scheduler, and what is suggested."""

from __future__ import annotations

import asyncio
import time
import wave
from typing import TYPE_CHECKING, Any

import pytest

from lingua_scheduler.sdk import Job, Node
from lingua_scheduler.sdk.nodes.check import (
    Checker,
    Report,
    Step,
    Tried,
    hum,
    lines_of,
    read_wav,
    sample_pairs,
    suggest,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("said", "pairs"),
    [
        ({"semantic": ["en", "es"], "asr": ["en"], "tts": ["es"], "pairs": [("en", "es")]}, ["en:es"]),
        ({"semantic": ["en", "zh"]}, ["en:zh", "zh:en"]),
        ({"semantic": ["en"]}, ["en:en"]),
        ({"semantic": ["en"], "asr": ["zh"]}, []),
        ({"semantic": ["en", "zh"], "pairs": [("*", "fr")]}, ["en:fr", "zh:fr"]),
        ({"semantic": ["en"], "tts": ["de", "fr"], "pairs": [("en", "*")]}, ["en:de", "en:fr"]),
        ({"semantic": ["en"], "tts": ["de"], "pairs": "any"}, ["en:de"]),
        ({"semantic": ["en"], "pairs": []}, []),
        ({"semantic": ["en"], "tts": ["de", "fr", "es", "it", "nl", "pt", "pl"]}, 6),
    ],
)
def test_it_is_tried_in_pairs_that_it_would_get(said: dict[str, Any], pairs: list[str] | int) -> None:
    found = sample_pairs(Node(**said))
    assert (len(found) if isinstance(pairs, int) else found) == pairs


@pytest.mark.parametrize(
    ("per_s", "suggested"),
    [
        ([], None),
        ([10], 1),
        ([10, 20, 40], 4),
        ([10, 11], 1),
        ([10, 19, 20, 80], 2),
        ([10, 8], 1),
    ],
)
def test_more_at_once_are_suggested_while_they_are_worth_it(per_s: list[float], suggested: int | None) -> None:
    assert suggest([Step(2**at, value, 1) for at, value in enumerate(per_s)]) == suggested


async def checked(handler: Any, **how: Any) -> Report:
    node = Node(["en", "es"], pairs=[("en", "es")])
    node.job(handler)
    return await Checker(node, hum(0.1), **how).check(budget_s=0.5)


async def test_a_handler_that_works_is_measured() -> None:
    heard: list[tuple[int, str, int]] = []

    async def work(job: Job) -> dict[str, object]:
        heard.append((len(job.audio), job.audio_format, job.sample_rate))
        job.partial("so far")
        return {"text_asr": "x", "tts_audio": b""}

    report = await checked(work)
    assert report.is_ok
    assert (report.tried[0].pair, report.tried[0].partials) == ("en:es", 1)
    assert report.tried[0].fields == ("text_asr", "tts_audio")
    assert heard[0] == (3_200, "pcm16", 16_000)
    assert report.steps[0].at_once == 1
    assert len(heard) == 1 + 2 * sum(step.at_once for step in report.steps)


async def test_one_that_fails_is_not_measured() -> None:
    def fail(_: Job) -> None:
        raise ValueError("no model")

    report = await checked(fail)
    assert (report.is_ok, report.steps, report.suggested) == (False, [], None)
    assert report.tried[0].error == "HANDLER_FAILED: ValueError: no model"


async def test_one_that_never_returns_is_given_up() -> None:
    async def hang(_: Job) -> None:
        await asyncio.Event().wait()

    report = await checked(hang, run_s=0.05)
    assert report.tried[0].error == "no result within 0.05 s"


async def test_one_that_fails_when_it_is_not_alone_is_too_many() -> None:
    at_work = 0

    async def alone(_: Job) -> dict[str, str]:
        nonlocal at_work
        at_work += 1
        await asyncio.sleep(0.001)
        is_alone, at_work = at_work == 1, at_work - 1
        if not is_alone:
            raise MemoryError
        return {"text_asr": "x"}

    report = await checked(alone)
    assert ([step.at_once for step in report.steps], report.suggested) == ([1], 1)


async def test_one_that_blocks_the_loop_is_told_so() -> None:
    async def block(_: Job) -> dict[str, str]:
        time.sleep(0.3)  # noqa: ASYNC251 - that is the mistake
        return {"text_asr": "x"}

    report = await checked(block)
    assert report.held_up_ms >= 200
    assert any("write it as a plain `def`" in line for line in lines_of(report, 1))


def test_the_report_ends_with_what_to_do() -> None:
    tried = [Tried("en:es", 12, "", 2, ("text_asr",))]
    lines = lines_of(Report(tried, [Step(1, 80.0, 12)], 1), 4)
    assert lines == [
        "en:es  ok  12 ms  text_asr, 2 partials",
        "1 at once: 80 jobs/s, 12 ms each",
        "max_jobs=1 is suggested (it is 4 now)",
    ]
    assert lines_of(Report(tried, [Step(1, 80.0, 12)], 1), 1)[-1] == "max_jobs=1 is suggested (as it is)"
    failed = Report([Tried("en:es", 3, "X: y")], [], None)
    assert lines_of(failed, 1) == ["en:es  failed after 3 ms: X: y", "not ready: the jobs above failed"]
    assert lines_of(Report([], [], None), 1)[0].startswith("this node would get no job")


def test_audio_of_ones_own_is_a_mono_wav(tmp_path: Path) -> None:
    for channels, name in ((1, "mono.wav"), (2, "stereo.wav")):
        with wave.open(str(tmp_path / name), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(8_000)
            file.writeframes(bytes(16))
    assert read_wav(tmp_path / "mono.wav") == (bytes(16), 8_000)
    with pytest.raises(ValueError, match="must be mono"):
        read_wav(tmp_path / "stereo.wav")
