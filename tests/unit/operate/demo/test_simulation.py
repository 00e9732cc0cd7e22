"""What a simulated node does with what it hears."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from typing import Any

import pytest

from lingua_scheduler.operate.demo.simulation import Died, Fate, fate_of, rng_of, stage_s, translate
from lingua_scheduler.operate.demo.voice import BYTES_PER_SECOND, speak
from lingua_scheduler.protocol.node import JobAssign
from lingua_scheduler.protocol.options import Pipeline
from lingua_scheduler.sdk import Job, JobError

SPEECH = speak(random.Random(1), 0.5, 120)


def job(audio: bytes = SPEECH, attempt: int = 1) -> Job:
    message = JobAssign(
        job_id="c0.a",
        attempt_id=attempt,
        session_id="s",
        utterance_index=0,
        src_lang="en",
        tgt_lang="zh",
        dialect=None,
        audio="",
        is_manual_cut=True,
        is_timeout_triggered=False,
        is_max_duration_triggered=False,
        audio_format="pcm16",
        sample_rate=16_000,
        pipeline=Pipeline(),
        deadline_ms=1,
        trace_id="t",
    )
    return Job(message, audio)


async def done(failure_rate: float = 0.0, **said: Any) -> dict[str, Any]:
    return await translate(job(**said), seed=1, failure_rate=failure_rate, slowness=0.0)


def test_speech_is_as_long_as_it_was_asked_for_and_not_silence() -> None:
    assert len(SPEECH) == BYTES_PER_SECOND / 2
    samples = array("h", SPEECH)
    assert max(samples) > 5_000
    assert min(samples) < -2_000
    # There are pauses between the syllables.
    assert b"\0" * 500 in SPEECH


def test_the_same_voice_says_the_same_again() -> None:
    assert speak(random.Random(1), 0.5, 120) == SPEECH
    assert speak(random.Random(2), 0.5, 120) != SPEECH


async def test_what_was_said_decides_what_comes_of_it_wherever_it_is_done() -> None:
    first, again, other = await done(), await done(), await done(audio=speak(random.Random(5), 0.5, 120))
    assert {name: first[name] for name in first if name != "extra"} == {
        name: again[name] for name in again if name != "extra"
    }
    assert first["tts_audio"] != other["tts_audio"]
    assert first["extra"]["simulated"] is True
    assert set(first["extra"]["service_timings"]) == {"asr_ms", "nmt_ms", "tts_ms"}


def test_so_many_tries_fail_as_was_asked_for() -> None:
    fates = Counter(fate_of(rng_of(1, bytes([number % 256, number // 256]), 1), 0.25) for number in range(4_000))
    assert 850 < fates.total() - fates[Fate.WELL] < 1_150
    assert set(fates) == set(Fate)


@pytest.mark.parametrize("failure_rate", [0.0, 1.0])
def test_never_and_always_are_possible(failure_rate: float) -> None:
    fates = {fate_of(rng_of(1, b"", attempt), failure_rate) for attempt in range(500)}
    assert fates == ({Fate.WELL} if failure_rate == 0 else set(Fate) - {Fate.WELL})


async def test_each_way_to_fail_is_said_in_the_words_of_the_protocol() -> None:
    said: dict[str, JobError] = {}
    died = False
    for attempt in range(1, 60):
        try:
            await done(failure_rate=1.0, attempt=attempt)
        except JobError as error:
            said[error.code] = error
        except Died:
            died = True
    assert died
    assert set(said) == {"MODEL_FAILED", "NODE_OVERLOADED", "MODEL_NOT_AVAILABLE"}
    assert said["NODE_OVERLOADED"].retry_after_ms
    assert said["MODEL_NOT_AVAILABLE"].details == {"service_type": "tts"}


def test_more_speech_and_a_slower_machine_take_longer() -> None:
    def seconds(speech_s: float, slowness: float) -> float:
        return stage_s(random.Random(1), (0.1, 0.1), speech_s, slowness)

    assert seconds(4.0, 1.0) > 2 * seconds(1.0, 1.0)
    assert seconds(1.0, 2.0) == pytest.approx(2 * seconds(1.0, 1.0))
