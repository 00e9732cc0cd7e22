"""What a simulated node does with a job: it takes as long as models would, and sometimes it fails.

What becomes of an attempt follows from the seed, from what was said and from how often it was tried: wherever a job
goes, it takes as long and fails as often, but for the speed of the machine.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lingua_scheduler.operate.demo.phrases import phrase
from lingua_scheduler.operate.demo.voice import BYTES_PER_SECOND, speak
from lingua_scheduler.sdk import JobError

if TYPE_CHECKING:
    from lingua_scheduler.sdk import Job

#: Seconds that a stage takes whatever was said, and for each second of speech; about what a good GPU needs.
_ASR: Final = (0.10, 0.08)
_NMT: Final = (0.06, 0.02)
_TTS: Final = (0.08, 0.09)
#: How much longer or shorter than usual: the spread of a logarithm.
_SPREAD: Final = 0.25
#: A translation is spoken about as long as what it translates.
_LENGTH: Final = (0.8, 1.2)
_PITCH_HZ: Final = 150.0
_REST_MS: Final = 1_500


class Fate(Enum):
    """How an attempt goes."""

    WELL = "well"
    ERROR = "error"
    OVERLOADED = "overloaded"
    NO_VOICE = "no voice"
    DEATH = "death"


#: Of the attempts that fail, so many parts do so this way.
_FAILURES: Final = {Fate.ERROR: 6, Fate.OVERLOADED: 2, Fate.NO_VOICE: 1, Fate.DEATH: 1}


class Died(Exception):
    """The node is gone, in the middle of its work."""


def rng_of(seed: int, audio: bytes, attempt: int) -> random.Random:
    """All that is left to chance in an attempt."""
    return random.Random(f"{seed}:{zlib.crc32(audio)}:{attempt}")


def fate_of(rng: random.Random, failure_rate: float) -> Fate:
    """Whether an attempt goes well, and if not, what happens."""
    if rng.random() >= failure_rate:
        return Fate.WELL
    return rng.choices(list(_FAILURES), list(_FAILURES.values()))[0]


def stage_s(rng: random.Random, stage: tuple[float, float], speech_s: float, slowness: float) -> float:
    """How long a stage takes for so much speech."""
    always_s, per_second = stage
    return (always_s + per_second * speech_s) * slowness * rng.lognormvariate(0, _SPREAD)


async def translate(job: Job, *, seed: int, failure_rate: float, slowness: float) -> dict[str, Any]:
    """Recognise, translate, speak; or fail, with a `JobError` or `Died`."""
    rng = rng_of(seed, job.audio, job.attempt_id)
    fate, speech_s = fate_of(rng, failure_rate), len(job.audio) / BYTES_PER_SECOND
    heard = rng.getrandbits(16)
    if fate is Fate.OVERLOADED:
        raise JobError("NODE_OVERLOADED", "no memory left", retry_after_ms=_REST_MS)
    asr_ms = await _work(stage_s(rng, _ASR, speech_s, slowness))
    job.partial(phrase(heard, job.src_lang), is_final=True)
    if fate is Fate.DEATH:
        raise Died
    if fate is Fate.ERROR:
        raise JobError("MODEL_FAILED", "the model gave up")
    nmt_ms = await _work(stage_s(rng, _NMT, speech_s, slowness))
    if fate is Fate.NO_VOICE:
        raise JobError("MODEL_NOT_AVAILABLE", "no voice", details={"service_type": "tts"})
    tts_ms = await _work(stage_s(rng, _TTS, speech_s, slowness))
    return {
        "text_asr": phrase(heard, job.src_lang),
        "text_translated": phrase(heard, job.tgt_lang),
        "tts_audio": speak(rng, speech_s * rng.uniform(*_LENGTH), _PITCH_HZ),
        # Whoever sees the sentence must know that nobody listened: it is another than was said.
        "extra": {"simulated": True, "service_timings": {"asr_ms": asr_ms, "nmt_ms": nmt_ms, "tts_ms": tts_ms}},
    }


async def _work(seconds: float) -> int:
    """Be busy for a while. How many milliseconds it took."""
    began = time.perf_counter()
    await asyncio.sleep(seconds)
    return round((time.perf_counter() - began) * 1000)
