"""`check`: the handler is tried on sample audio, without any server, and `max_jobs` suggested by what was measured."""

from __future__ import annotations

import asyncio
import math
import struct
import time
import wave
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from lingua_scheduler.core.capability import capability
from lingua_scheduler.protocol.node import JobAssign, JobResult
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.sdk.nodes.job import Job
from lingua_scheduler.sdk.nodes.results import failure_of, result_of
from lingua_scheduler.sdk.nodes.runner import HELD_UP
from lingua_scheduler.sdk.nodes.work import call, is_async

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingua_scheduler.sdk.nodes.node import Node

SAMPLE_RATE: Final = 16_000
#: As long as the scheduler gives an attempt.
RUN_S: Final = 30.0
#: So many pairs are tried, each once.
MAX_PAIRS: Final = 6
#: How many at once are tried, as long as more of them are worth it.
STEPS: Final = (1, 2, 4, 8, 16, 32)
#: Twice as many at once must do at least so much more, or they only wait for each other.
_WORTH: Final = 1.25
#: All measuring together takes about this long.
BUDGET_S: Final = 20.0
_LOOK_S: Final = 0.05
_HELD_UP_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Tried:
    """One call of the handler. `error` "": it returned a result."""

    pair: str
    took_ms: int
    error: str = ""
    partials: int = 0
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """So many jobs at once: how many were done in a second, and how long one took."""

    at_once: int
    per_s: float
    median_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it."""

    tried: list[Tried]
    steps: list[Step]
    suggested: int | None
    held_up_ms: int = 0

    @property
    def is_ok(self) -> bool:
        """Whether every call gave a result."""
        return bool(self.tried) and not any(one.error for one in self.tried)


def hum(seconds: float = 2.0) -> bytes:
    """Sample audio: a hum in syllables, as pcm16. No words, but something to hear."""
    samples = []
    for at in range(int(seconds * SAMPLE_RATE)):
        t = at / SAMPLE_RATE
        loud = max(0.0, math.sin(2 * math.pi * 3 * t)) * 9_000
        tone = math.sin(2 * math.pi * 140 * t) + 0.5 * math.sin(2 * math.pi * 700 * t)
        samples.append(int(loud * tone / 1.5))
    return struct.pack(f"<{len(samples)}h", *samples)


def read_wav(path: Path) -> tuple[bytes, int]:
    """Audio of one's own: the samples of a wav file of 16-bit mono, and their rate."""
    try:
        with wave.open(str(path), "rb") as file:
            if (file.getnchannels(), file.getsampwidth()) != (1, 2):
                raise ValueError(f"{path} must be mono with 16 bits a sample")
            return file.readframes(file.getnframes()), file.getframerate()
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{path} is no wav file: {error}") from None


def sample_pairs(node: Node) -> list[str]:
    """Pairs that the node would get jobs for, as it declares itself; at most a few."""
    said = node.declaration
    word, _ = capability(**{name: said[name] for name in ("semantic_langs", "asr_langs", "nmt_pairs", "tts_langs")})
    heard = [src for src in _list(word, "semantic") if "asr" not in word or src in _list(word, "asr")]
    spoken = _list(word, "tts") if "tts" in word else _list(word, "semantic")
    declared = word.get("nmt")
    if isinstance(declared, list):
        ends = [str(pair).split(":") for pair in declared]
        found = [
            (src, tgt)
            for src in heard
            for one, other in ends
            if one in {"*", src}
            for tgt in (spoken if other == "*" else [other])
        ]
    else:
        found = [(src, tgt) for src in heard for tgt in spoken]
    others = [f"{src}:{tgt}" for src, tgt in dict.fromkeys(found) if src != tgt]
    return (others or [f"{src}:{tgt}" for src, tgt in dict.fromkeys(found)])[:MAX_PAIRS]


def _list(word: dict[str, object], name: str) -> list[str]:
    value = word.get(name)
    return [str(one) for one in value] if isinstance(value, list) else []


def suggest(steps: Sequence[Step]) -> int | None:
    """The most jobs at once that are still worth it; None: nothing was measured."""
    best: Step | None = None
    for step in steps:
        if best is not None and step.per_s < best.per_s * _WORTH:
            break
        best = step
    return None if best is None else best.at_once


class Checker:
    """Calls the handler as the node would."""

    def __init__(self, node: Node, audio: bytes, sample_rate: int = SAMPLE_RATE, *, run_s: float = RUN_S) -> None:
        self._node = node
        self._audio = audio
        self._sample_rate = sample_rate
        self._run_s = run_s
        self._calls = 0

    async def check(self, *, budget_s: float = BUDGET_S) -> Report:
        """Each pair once, then more and more at once."""
        await self._node.prepare()
        pairs = sample_pairs(self._node)
        if not pairs:
            return Report([], [], None)
        watch = asyncio.create_task(_holds())
        await asyncio.sleep(0)
        tried = [await self.once(pair) for pair in pairs]
        await asyncio.sleep(_LOOK_S)
        watch.cancel()
        held_up_s = max(await watch)
        steps: list[Step] = []
        if not any(one.error for one in tried):
            steps = await self._measure(pairs[0], budget_s)
        return Report(tried, steps, suggest(steps), round(held_up_s * 1000) if is_async(self._node.handler) else 0)

    async def _measure(self, pair: str, budget_s: float) -> list[Step]:
        steps: list[Step] = []
        began = time.perf_counter()
        for at_once in STEPS:
            step = await self._step(pair, at_once, rounds=2)
            if step is None:
                break
            steps.append(step)
            spent_s = time.perf_counter() - began
            is_worth_it = suggest(steps) == at_once
            if not is_worth_it or spent_s * 2 > budget_s:
                break
        return steps

    async def _step(self, pair: str, at_once: int, rounds: int) -> Step | None:
        """None: something failed that succeeds alone, so this is too much at once."""

        async def one_after_another() -> list[Tried]:
            return [await self.once(pair) for _ in range(rounds)]

        began = time.perf_counter()
        tried = [one for some in await asyncio.gather(*(one_after_another() for _ in range(at_once))) for one in some]
        took_s = max(time.perf_counter() - began, 1e-6)
        if any(one.error for one in tried):
            return None
        return Step(at_once, round(len(tried) / took_s, 2), round(median(one.took_ms for one in tried)))

    async def once(self, pair: str) -> Tried:
        """One job."""
        self._calls += 1
        src, tgt = pair.split(":")
        message = JobAssign(
            job_id=f"check.{self._calls}",
            attempt_id=1,
            session_id="check",
            utterance_index=self._calls,
            src_lang=src,
            tgt_lang=tgt,
            dialect=None,
            pipeline=Pipeline(use_asr=True, use_nmt=True, use_semantic=True, use_tts=True),
            audio="",
            audio_format="pcm16",
            sample_rate=self._sample_rate,
            trace_id=f"check-{self._calls}",
            is_manual_cut=True,
            is_timeout_triggered=False,
            is_max_duration_triggered=False,
            deadline_ms=int((time.time() + 2 * self._run_s) * 1000),
        )
        partials: list[str] = []
        job = Job(message, self._audio, lambda text, _is_final: partials.append(text))
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._run_s):
                answer = result_of(message, None, await call(self._node.handler, job), 0)
        except TimeoutError:
            job.cancel()
            return Tried(pair, round(self._run_s * 1000), f"no result within {self._run_s:g} s")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is shown
            failure = failure_of(message, None, error)
            words = failure.error if isinstance(failure, JobResult) else None
            why = f"{words.code}: {words.message}" if words else str(error)
            return Tried(pair, round((time.perf_counter() - began) * 1000), why, len(partials))
        took_ms = round((time.perf_counter() - began) * 1000)
        fields = ("text_asr", "text_translated", "tts_audio")
        said = tuple(name for name in fields if getattr(answer, name) is not None)
        return Tried(pair, took_ms, "", len(partials), said)


async def _holds() -> list[float]:
    """For how long the event loop was held up, each time, until this is cancelled."""
    clock = asyncio.get_running_loop().time
    holds = [0.0]
    try:
        while True:
            before = clock()
            await asyncio.sleep(_LOOK_S)
            holds.append(clock() - before - _LOOK_S)
    except asyncio.CancelledError:
        return holds


def lines_of(report: Report, max_jobs: int) -> list[str]:
    """The report for a person."""
    if not report.tried:
        return ["this node would get no job: no language is heard (asr), repaired (semantic) and translated (pairs)"]
    lines = [_line(one) for one in report.tried]
    if report.held_up_ms > _HELD_UP_S * 1000:
        lines.append(f"{HELD_UP} ({report.held_up_ms} ms)")
    if not report.is_ok:
        return [*lines, "not ready: the jobs above failed"]
    lines += [f"{one.at_once} at once: {one.per_s:g} jobs/s, {one.median_ms} ms each" for one in report.steps]
    if report.suggested is not None:
        verdict = "as it is" if report.suggested == max_jobs else f"it is {max_jobs} now"
        lines.append(f"max_jobs={report.suggested} is suggested ({verdict})")
    return lines


def _line(one: Tried) -> str:
    if one.error:
        return f"{one.pair}  failed after {one.took_ms} ms: {one.error}"
    partials = f", {one.partials} partials" if one.partials else ""
    return f"{one.pair}  ok  {one.took_ms} ms  {', '.join(one.fields)}{partials}"
