"""Wav in a stream: where a header is, where samples are, and that every utterance is a whole file."""

from __future__ import annotations

import io
import wave

import pytest

from lingua_scheduler.core.cutting import CutLimits, Cutter
from lingua_scheduler.core.wav import MAX_HEADER, Wav
from tests.support.streams import Turns, chunk, cutter, told, wav_data, wav_file, wav_format

DATA = bytes(range(1, 41))


def said_by(*chunks: bytes) -> bytes:
    """The samples of the one utterance that these chunks are."""
    stream = cutter(Wav())
    for seq, audio in enumerate(chunks):
        assert stream.add(seq, audio, False, 0).refusal is None
    (said,) = stream.add(len(chunks), b"", True, 0).utterances
    return wav_data(said.audio)


def refused(*chunks: bytes) -> list[str]:
    """What is told about these chunks."""
    stream = cutter(Wav())
    refusals = [stream.add(seq, audio, False, 0).refusal for seq, audio in enumerate(chunks)]
    return [refusal.detail.partition(": ")[2] for refusal in refusals if refusal]


def test_a_file_in_is_a_file_out() -> None:
    file = wav_file(DATA)
    assert len(file) == 44 + len(DATA)
    (said,) = cutter(Wav()).add(0, file, True, 0).utterances
    assert said.audio == file
    assert said.duration_ms == 20


def test_others_can_read_every_piece() -> None:
    stream = cutter(Wav())
    sound = bytes(range(250)) * 2
    said = stream.add(0, wav_file(sound, wav_format(rate=1_100)), True, 0).utterances
    read = []
    for utterance in said:
        with wave.open(io.BytesIO(utterance.audio)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (1_100, 1, 2)
            read.append(file.readframes(1_000))
    assert [len(data) for data in read] == [220, 220, 60]
    assert b"".join(read) == sound


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0xFFFFFFFF], ids=["0", "sox", "ffmpeg"])
def test_a_length_that_nobody_knew_yet_is_no_length(size: int) -> None:
    assert said_by(wav_file(DATA, size=size), DATA, DATA) == DATA * 3


def test_a_length_that_is_too_short_loses_nothing() -> None:
    assert said_by(wav_file(DATA, size=4), DATA) == DATA * 2


def test_a_file_in_every_chunk_is_one_utterance() -> None:
    assert said_by(wav_file(DATA), wav_file(DATA), wav_file(DATA)) == DATA * 3


@pytest.mark.parametrize("name", [b"LIST", b"id3 ", b"fact", b"JUNK"])
@pytest.mark.parametrize("size", [4, 7])
def test_what_is_no_audio_is_not_heard(name: bytes, size: int) -> None:
    extra = chunk(name, b"x" * size)
    assert said_by(wav_file(DATA, before=extra)) == DATA
    assert said_by(wav_file(DATA) + extra) == DATA
    assert said_by(wav_file(DATA) + extra[:9], extra[9:] + wav_file(DATA)) == DATA * 2


def test_an_odd_length_is_made_even_and_the_byte_for_that_is_not_heard() -> None:
    form = wav_format(bits=8)
    assert said_by(wav_file(DATA[:7], form) + wav_file(DATA[:4], form)) == DATA[:7] + DATA[:4]


def test_half_a_sample_at_the_end_of_a_file_does_not_shift_the_next() -> None:
    assert said_by(wav_file(DATA[:7]) + wav_file(DATA)) == DATA[:6] + DATA


@pytest.mark.parametrize("form", [wav_format() + bytes(2), wav_format() + b"\x16\0" + bytes(22)], ids=["18", "40"])
def test_longer_formats_stay_as_they_are(form: bytes) -> None:
    stream = cutter(Wav(), max_bytes=133)
    first, *_ = stream.add(0, wav_file(DATA * 5, form), True, 0).utterances
    assert first.audio[20 : 20 + len(form)] == form
    assert len(first.audio) in (131, 132)


@pytest.mark.parametrize("repeat", [True, False], ids=["a header each", "one header"])
@pytest.mark.parametrize("size", [0, len(DATA), 9999])
def test_after_a_cut_a_header_may_come_or_not(repeat: bool, size: int) -> None:
    stream = cutter(Wav())
    said = stream.add(0, wav_file(DATA, size=size), True, 0).utterances
    said += stream.add(1, wav_file(DATA) if repeat else DATA, True, 0).utterances
    assert [wav_data(each.audio) for each in said] == [DATA, DATA]
    assert told(said) == [(0, "manual", "t0", 0, 20), (1, "manual", "t1", 0, 20)]


def test_another_format_may_come_with_another_utterance() -> None:
    stream = cutter(Wav())
    stream.add(0, wav_file(DATA), True, 0)
    file = wav_file(DATA, wav_format(rate=2_000))
    (said,) = stream.add(1, file, True, 0).utterances
    assert (said.audio, said.duration_ms) == (file, 10)


def test_within_an_utterance_the_format_stays_until_a_header_agrees_again() -> None:
    stream = cutter(Wav())
    stream.add(0, wav_file(DATA), False, 0)
    other = stream.add(1, wav_file(DATA, wav_format(rate=2_000)), False, 0)
    assert other.refusal is not None
    assert other.refusal.detail == "audio_chunk 1: the format of a wav cannot change within an utterance"
    assert stream.add(2, DATA, False, 0).refusal is not None
    added = stream.add(3, wav_file(DATA), True, 0)
    assert added.refusal is None
    assert [wav_data(said.audio) for said in added.utterances] == [DATA * 2]


def test_two_formats_in_one_chunk_are_two_formats() -> None:
    assert refused(wav_file(DATA) + wav_file(DATA, wav_format(rate=2_000))) == [
        "the format of a wav cannot change within an utterance"
    ]


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (DATA[:12], "wav audio begins with RIFF and WAVE"),
        (b"RIFF" + bytes(4) + b"AVI " + DATA, "wav audio begins with RIFF and WAVE"),
        (chunk(b"RIFF", b"WAVE" + chunk(b"data", DATA)), "a wav without a format before its data"),
        (wav_file(DATA, wav_format() + b"x"), "a wav format of 17 bytes"),
        (wav_file(DATA, wav_format(rate=999)), "a wav sample rate of 999"),
        (wav_file(DATA, wav_format(rate=768_001)), "a wav sample rate of 768001"),
        (wav_file(DATA, wav_format(byte_rate=1_999)), "a wav that is compressed cannot be cut"),
        (wav_file(DATA, wav_format(channels=33)), "a wav that is compressed cannot be cut"),
        (wav_file(DATA, wav_format(channels=0)), "a wav that is compressed cannot be cut"),
        (wav_file(DATA, before=chunk(b"JUNK", b"", 0xFFFF_FFF0)), "the header of a wav is too long"),
    ],
)
def test_what_is_no_wav_is_told_and_a_good_header_is_heard_after_it(audio: bytes, words: str) -> None:
    assert refused(audio) == [words]
    stream = cutter(Wav())
    stream.add(0, audio, False, 0)
    (said,) = stream.add(1, wav_file(DATA), True, 0).utterances
    assert said.audio == wav_file(DATA)


def test_a_header_fills_two_pages_at_most_and_is_never_waited_for_in_vain() -> None:
    room = MAX_HEADER - 12 - 24 - 8 - 8
    longest = wav_file(DATA, before=chunk(b"JUNK", bytes(room)))
    assert len(longest) == MAX_HEADER + len(DATA)
    assert said_by(longest[:100], longest[100:]) == DATA
    assert refused(wav_file(DATA, before=chunk(b"JUNK", bytes(room + 2)))) == ["the header of a wav is too long"]
    assert refused(wav_file(DATA, before=chunk(b"JUNK", bytes(MAX_HEADER - 28)))) == ["the header of a wav is too long"]


@pytest.mark.parametrize("torn", [wav_file(DATA)[:11], wav_file(DATA)[:30], wav_file(DATA) + b"LIST"])
def test_a_header_that_is_cut_short_is_dropped_and_told(torn: bytes) -> None:
    stream = cutter(Wav())
    added = stream.add(0, torn, True, 0)
    assert added.refusal is not None
    assert added.refusal.detail == "audio_chunk 0: the audio ends inside a sample or a header of a wav"
    (said,) = stream.add(1, wav_file(DATA), True, 0).utterances
    assert said.audio == wav_file(DATA)


def test_a_pause_inside_a_file_goes_on_where_it_was() -> None:
    stream = cutter(Wav())
    file = wav_file(DATA) + chunk(b"LIST", b"no sound")
    stream.add(0, file[:51], False, 0)
    (first,) = stream.tick(300)
    (last,) = stream.add(1, file[51:], True, 400).utterances
    assert wav_data(first.audio) + wav_data(last.audio) == DATA


def test_an_extra_without_content_at_the_very_end_is_whole() -> None:
    assert cutter(Wav()).add(0, wav_file(DATA) + chunk(b"LIST", b""), True, 0).refusal is None


def test_the_fastest_widest_longest_format_fits_the_narrowest_limit() -> None:
    form = wav_format(rate=768_000, channels=32) + b"\x16\0" + bytes(22)
    limits = CutLimits(max_bytes=Wav().largest)
    said = Cutter(limits, Wav(), Turns()).add(0, wav_file(bytes(range(128)), form), True, 0).utterances
    assert [wav_data(each.audio) for each in said] == [bytes(range(64)), bytes(range(64, 128))]
    with pytest.raises(ValueError, match="not one sample"):
        Cutter(CutLimits(max_bytes=Wav().largest - 1), Wav(), Turns())
    assert Wav().largest == len(said[0].audio) + 1


def test_the_header_counts_against_the_bytes_of_an_utterance() -> None:
    stream = cutter(Wav(), max_bytes=133)
    said = stream.add(0, wav_file(DATA * 5), True, 0).utterances
    assert [len(each.audio) for each in said] == [132, 132, 68]
    assert said[0].cut.value == "max_length"
