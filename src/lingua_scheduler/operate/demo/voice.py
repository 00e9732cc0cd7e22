"""Speech-like audio: syllables of a voice that hums, with pauses between them. 16-bit samples at 16 kHz, mono."""

from __future__ import annotations

import math
from array import array
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

RATE: Final = 16_000
BYTES_PER_SECOND: Final = 2 * RATE
#: The two lowest resonances of some vowels, in Hz: ah, eh, ee, oh, oo.
_VOWELS: Final = ((730, 1_090), (530, 1_840), (270, 2_290), (570, 840), (300, 870))
_RESONANCE_HZ: Final = 150.0
_HIGHEST_HZ: Final = 3_500
_LOUDEST: Final = 9_000
_LOUDNESSES: Final = 12
#: How a voice goes up and down.
_MELODY: Final = (0.88, 0.94, 1.0, 1.07, 1.15)
_SYLLABLE_S: Final = (0.10, 0.24)
_PAUSE_S: Final = (0.02, 0.09)


def speak(rng: random.Random, seconds: float, pitch_hz: float) -> bytes:
    """So many seconds of a voice of about this pitch."""
    wanted = round(seconds * RATE)
    samples = array("h")
    while len(samples) < wanted:
        period, vowel = round(RATE / (pitch_hz * rng.choice(_MELODY))), rng.randrange(len(_VOWELS))
        repeats = round(rng.uniform(*_SYLLABLE_S) * RATE / period)
        for number in range(repeats):
            loudness = math.sin(math.pi * (number + 0.5) / repeats)
            samples.extend(_period(period, vowel, round(_LOUDNESSES * loudness)))
        samples.extend([0] * round(rng.uniform(*_PAUSE_S) * RATE))
    return samples[:wanted].tobytes()


@cache
def _period(period: int, vowel: int, loudness: int) -> array[int]:
    """One of the few that all speech is put together from: so it costs next to nothing, however many speak."""
    return array("h", [int(sample * loudness / _LOUDNESSES) for sample in _wave(period, vowel)])


@cache
def _wave(period: int, vowel: int) -> tuple[float, ...]:
    """One period: the harmonics of the pitch, each as loud as the vowel lets it be."""
    pitch_hz = RATE / period
    gains = [
        sum(1 / (1 + ((number * pitch_hz - resonance) / _RESONANCE_HZ) ** 2) for resonance in _VOWELS[vowel])
        for number in range(1, int(_HIGHEST_HZ / pitch_hz) + 1)
    ]
    wave = [
        sum(gain * math.sin(2 * math.pi * number * at / period) for number, gain in enumerate(gains, 1))
        for at in range(period)
    ]
    peak = max(map(abs, wave))
    return tuple(_LOUDEST * sample / peak for sample in wave)
