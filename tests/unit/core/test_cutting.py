"""Cutting, on virtual time. The streams are slow (1 kHz, two bytes a millisecond), so that numbers can be read."""

from __future__ import annotations

import pytest

from lingua_scheduler.core.audio import Opus, Pcm16
from lingua_scheduler.core.cutting import CutLimits, Cutter, Tally
from tests.support.streams import Turns, cutter, packet, told


def slow() -> Pcm16:
    return Pcm16(1_000)


def due(stream: Cutter) -> int | None:
    """When it wants to be asked again."""
    return stream.due_ms


def samples(number: int, first: int = 0) -> bytes:
    """So many samples, each different from its neighbours."""
    return b"".join((first + place).to_bytes(2, "little") for place in range(number))


def test_the_defaults_are_those_of_the_product() -> None:
    assert CutLimits() == CutLimits(3_000, 10_000, 2_097_152, 250)


def test_the_client_cuts_with_its_last_chunk() -> None:
    stream = cutter(slow())
    assert stream.add(0, samples(20), False, 1_000).utterances == []
    (said,) = stream.add(1, samples(10, 20), True, 1_020).utterances
    assert said.audio == samples(30)
    assert told([said]) == [(0, "manual", "t0", 0, 30)]
    assert (said.first_ms, said.last_ms) == (1_000, 1_020)
    assert (said.is_manual_cut, said.is_timeout_triggered, said.is_max_duration_triggered) == (True, False, False)
    assert due(stream) is None


def test_the_client_cuts_with_a_bare_word() -> None:
    stream = cutter(slow())
    stream.add(0, samples(20), False, 1_000)
    (said,) = stream.add(1, b"", True, 1_200).utterances
    assert (said.audio, said.is_manual_cut, said.last_ms) == (samples(20), True, 1_000)


def test_a_cut_without_audio_makes_no_utterance_and_takes_no_number() -> None:
    stream = cutter(slow())
    assert stream.add(0, b"", True, 1_000).utterances == []
    (said,) = stream.add(1, samples(1), True, 1_000).utterances
    assert stream.add(2, b"", True, 1_000).utterances == []
    (after,) = stream.add(3, samples(1), True, 1_000).utterances
    assert told([said, after]) == [(0, "manual", "t0", 0, 1), (1, "manual", "t1", 0, 1)]


def test_a_pause_cuts_when_it_is_over_and_not_before() -> None:
    stream = cutter(slow())
    stream.add(0, samples(20), False, 1_000)
    stream.add(1, samples(20, 20), False, 1_200)
    assert due(stream) == 1_500
    assert stream.tick(1_499) == []
    (said,) = stream.tick(1_500)
    assert said.audio == samples(40)
    assert (said.is_manual_cut, said.is_timeout_triggered, said.is_max_duration_triggered) == (False, True, False)
    assert (said.first_ms, said.last_ms) == (1_000, 1_200)
    assert due(stream) is None
    assert stream.tick(9_999) == []


def test_audio_after_a_pause_that_nobody_noticed_is_another_utterance() -> None:
    stream = cutter(slow())
    stream.add(0, samples(20), False, 1_000)
    (said,) = stream.add(1, samples(5, 50), False, 1_300).utterances
    assert told([said]) == [(0, "timeout", "t0", 0, 20)]
    (after,) = stream.add(2, b"", True, 1_301).utterances
    assert (after.audio, after.turn_id, after.first_ms) == (samples(5, 50), "t1", 1_300)


def test_neither_silence_in_words_nor_a_repeated_chunk_is_new_audio() -> None:
    stream = cutter(slow())
    stream.add(0, samples(20), False, 1_000)
    stream.add(1, b"", False, 1_200)
    stream.add(0, samples(20), False, 1_250)
    assert due(stream) == 1_300


def test_what_is_too_long_is_cut_at_a_sample_and_the_turn_goes_on() -> None:
    stream = cutter(slow())
    first, second = stream.add(0, samples(250), False, 1_000).utterances
    assert (first.audio, second.audio) == (samples(100), samples(100, 100))
    assert (first.is_manual_cut, first.is_timeout_triggered, first.is_max_duration_triggered) == (False, False, True)
    (last,) = stream.add(1, b"", True, 1_010).utterances
    assert last.audio == samples(50, 200)
    assert told([first, second, last]) == [
        (0, "max_duration", "t0", 0, 100),
        (1, "max_duration", "t0", 1, 100),
        (2, "manual", "t0", 2, 50),
    ]
    (after,) = stream.add(2, samples(1), True, 1_020).utterances
    assert told([after]) == [(3, "manual", "t1", 0, 1)]


def test_a_pause_ends_the_turn_of_what_was_too_long() -> None:
    stream = cutter(slow())
    (first,) = stream.add(0, samples(101), False, 1_000).utterances
    (last,) = stream.tick(1_300)
    (after,) = stream.add(1, samples(1), True, 1_310).utterances
    assert told([first, last, after]) == [
        (0, "max_duration", "t0", 0, 100),
        (1, "timeout", "t0", 1, 1),
        (2, "manual", "t1", 0, 1),
    ]


def test_each_piece_knows_when_its_own_audio_came() -> None:
    stream = cutter(slow())
    stream.add(0, samples(90), False, 1_000)
    (first,) = stream.add(1, samples(20, 90), False, 1_090).utterances
    (last,) = stream.add(2, samples(5, 110), True, 1_110).utterances
    assert (first.first_ms, first.last_ms) == (1_000, 1_090)
    assert (last.first_ms, last.last_ms) == (1_090, 1_110)


def test_the_end_of_what_is_just_full_is_the_end_of_its_turn() -> None:
    """No piece is announced as unfinished when nothing follows it."""
    stream = cutter(slow())
    assert stream.add(0, samples(100), False, 1_000).utterances == []
    (said,) = stream.add(1, b"", True, 1_049).utterances
    assert told([said]) == [(0, "manual", "t0", 0, 100)]


def test_what_is_just_full_is_cut_by_what_follows() -> None:
    stream = cutter(slow())
    stream.add(0, samples(100), False, 1_000)
    (said,) = stream.add(1, samples(1, 100), False, 1_010).utterances
    assert (told([said]), said.last_ms) == ([(0, "max_duration", "t0", 0, 100)], 1_000)


def test_what_is_just_full_waits_only_a_moment_and_its_turn_until_a_pause() -> None:
    stream = cutter(slow())
    stream.add(0, samples(100), False, 1_000)
    assert due(stream) == 1_050
    assert stream.tick(1_049) == []
    assert told(stream.tick(1_050)) == [(0, "max_duration", "t0", 0, 100)]
    assert due(stream) == 1_300
    assert told(stream.add(1, samples(1), True, 1_299).utterances) == [(1, "manual", "t0", 1, 1)]

    stream.add(2, samples(100), False, 2_000)
    assert told(stream.tick(2_300)) == [(2, "max_duration", "t1", 0, 100)]
    assert due(stream) is None
    assert told(stream.add(3, samples(1), True, 2_301).utterances) == [(3, "manual", "t2", 0, 1)]


def test_more_bytes_than_an_utterance_may_have_are_cut_without_a_flag_and_the_turn_goes_on() -> None:
    stream = cutter(slow(), max_bytes=61)
    first, second = stream.add(0, samples(70), False, 1_000).utterances
    (last,) = stream.add(1, b"", True, 1_000).utterances
    assert [len(said.audio) for said in (first, second, last)] == [60, 60, 20]
    assert (first.is_manual_cut, first.is_timeout_triggered, first.is_max_duration_triggered) == (False, False, False)
    assert told([first, second, last]) == [
        (0, "max_length", "t0", 0, 30),
        (1, "max_length", "t0", 1, 30),
        (2, "manual", "t0", 2, 10),
    ]


def test_opus_is_cut_between_packets_by_time_and_by_bytes() -> None:
    stream = cutter(Opus())
    sound = b"".join(packet(size) for size in (3, 40, 1, 1_276, 9, 60, 61))
    (first,) = stream.add(0, sound, False, 0).utterances
    (last,) = stream.add(1, b"", True, 0).utterances
    assert first.audio + last.audio == sound
    assert last.audio == packet(60) + packet(61)
    assert told([first, last]) == [(0, "max_duration", "t0", 0, 100), (1, "manual", "t0", 1, 40)]

    narrow = cutter(Opus(), max_bytes=1_278)
    first, second = narrow.add(0, packet(5) + packet(1_276) + packet(6), False, 0).utterances
    assert (first.audio, second.audio) == (packet(5), packet(1_276))
    assert [said.cut.value for said in (first, second)] == ["max_length", "max_length"]


@pytest.mark.parametrize("length", [0, 1_277, 65_535])
def test_a_length_that_no_packet_has_is_told_and_costs_only_what_follows_it_in_its_chunk(length: int) -> None:
    stream = cutter(Opus())
    bad = length.to_bytes(2, "little") + b"whatever"
    before = stream.add(0, packet(3) + packet(4)[:3], False, 0)
    assert (before.utterances, before.refusal) == ([], None)
    added = stream.add(1, packet(4)[3:] + packet(5) + bad, False, 10)
    assert added.utterances == []
    assert added.refusal is not None
    assert added.refusal.code == "INVALID_MESSAGE"
    assert added.refusal.detail == f"audio_chunk 1: an Opus packet has 1 to 1276 bytes, not {length}"
    (said,) = stream.add(2, packet(6), True, 20).utterances
    assert said.audio == packet(3) + packet(4) + packet(5) + packet(6)
    assert said.duration_ms == 80


def test_a_chunk_that_is_wrong_still_cuts() -> None:
    stream = cutter(Opus())
    added = stream.add(0, packet(3) + b"\0\0", True, 0)
    assert [said.audio for said in added.utterances] == [packet(3)]
    assert added.refusal is not None
    assert added.refusal.detail == "audio_chunk 0: an Opus packet has 1 to 1276 bytes, not 0"


@pytest.mark.parametrize(
    ("codec", "torn", "words"),
    [
        (slow(), samples(3)[:5], "the audio ends inside a sample"),
        (Opus(), packet(9)[:1], "the audio ends inside an Opus packet"),
        (Opus(), packet(9)[:10], "the audio ends inside an Opus packet"),
    ],
)
def test_what_is_not_whole_at_the_clients_own_cut_is_dropped_and_told(
    codec: Pcm16 | Opus, torn: bytes, words: str
) -> None:
    whole = samples(2) if isinstance(codec, Pcm16) else packet(2)
    stream = cutter(codec)
    added = stream.add(5, whole + torn, True, 0)
    assert added.refusal is not None
    assert added.refusal.detail == f"audio_chunk 5: {words}"
    (said,) = added.utterances
    assert said.audio.startswith(whole)
    (after,) = stream.add(6, whole, True, 0).utterances
    assert after.audio == whole


def test_what_is_not_whole_waits_for_its_other_half_over_a_pause() -> None:
    stream = cutter(slow())
    stream.add(0, samples(3)[:5], False, 0)
    (said,) = stream.tick(300)
    (after,) = stream.add(1, samples(3)[5:], True, 400).utterances
    assert said.audio + after.audio == samples(3)


def test_half_a_unit_alone_is_no_audio() -> None:
    stream = cutter(Opus())
    stream.add(0, packet(9)[:5], False, 0)
    assert due(stream) is None
    stream.add(1, packet(9)[5:], False, 700)
    assert due(stream) == 1_000


def test_a_chunk_that_was_heard_is_not_heard_again() -> None:
    stream = cutter(slow())
    stream.add(7, samples(1), False, 0)
    stream.add(8, samples(1, 1), False, 0)
    told = []
    for seq in (8, 7, 0):
        added = stream.add(seq, samples(9), True, 0)
        assert added.utterances == []
        told.append(added.refusal and added.refusal.detail)
    assert told == ["audio_chunk 8: dropped, for it is not above 8, which was heard", None, None]
    (said,) = stream.add(9, samples(1, 2), True, 0).utterances
    assert said.audio == samples(3)
    assert stream.tally == Tally(missing=0, repeated=3)
    assert stream.add(8, samples(1), True, 0).refusal is not None, "told again, for others were heard meanwhile"


def test_chunks_that_are_missing_are_counted_and_cost_only_themselves() -> None:
    stream = cutter(slow())
    stream.add(7, samples(1), False, 0)
    assert stream.add(10, samples(1, 1), False, 0).refusal is None
    (said,) = stream.add(12, samples(1, 2), True, 0).utterances
    assert said.audio == samples(3)
    assert stream.tally == Tally(missing=3, repeated=0)


def test_behind_missing_chunks_a_new_unit_begins() -> None:
    stream = cutter(Opus())
    stream.add(0, packet(3) + packet(9)[:5], False, 0)
    added = stream.add(2, packet(4), True, 0)
    assert added.refusal is not None
    assert added.refusal.detail == "audio_chunk 2: the audio ends inside an Opus packet"
    assert [said.audio for said in added.utterances] == [packet(3) + packet(4)]


def test_numbering_may_begin_anew_after_the_clients_own_cut() -> None:
    stream = cutter(slow())
    stream.add(1, samples(1), False, 0)
    stream.add(2, samples(1), True, 0)
    stream.add(1, samples(1, 5), False, 0)
    (said,) = stream.add(2, samples(1, 6), True, 0).utterances
    assert said.audio == samples(2, 5)
    assert stream.add(0, samples(1), True, 0).utterances == []
    assert stream.tally == Tally(missing=0, repeated=1)


@pytest.mark.parametrize("number", [1, 3])
def test_numbering_may_begin_anew_after_a_pause(number: int) -> None:
    stream = cutter(slow())
    for turn in range(3):
        for seq in range(number):
            cut = stream.add(seq, samples(1, seq), False, turn * 1_000)
            assert cut.refusal is None
        (said,) = stream.tick(turn * 1_000 + 300)
        assert (said.audio, said.is_timeout_triggered, said.turn_id) == (samples(number), True, f"t{turn}")
    assert stream.tally == Tally()


def test_after_a_pause_only_the_first_number_is_a_new_beginning() -> None:
    stream = cutter(slow())
    for seq in (4, 5, 6):
        stream.add(seq, samples(1), False, 0)
    stream.tick(300)
    assert [stream.add(seq, samples(1), True, 400).utterances for seq in (5, 3)] == [[], []]
    assert len(stream.add(4, samples(1), True, 400).utterances) == 1


def test_a_new_beginning_after_a_pause_has_nothing_of_the_old_stream() -> None:
    stream = cutter(Opus())
    stream.add(0, packet(3) + packet(9)[:5], False, 0)
    stream.tick(300)
    added = stream.add(0, packet(4), True, 400)
    assert added.refusal is not None
    assert added.refusal.detail == "audio_chunk 0: the audio ends inside an Opus packet"
    assert [said.audio for said in added.utterances] == [packet(4)]


def test_a_last_chunk_that_is_sent_again_is_not_a_new_beginning() -> None:
    stream = cutter(slow())
    stream.add(0, samples(1), True, 0)
    assert stream.add(0, samples(1), True, 0).utterances == []
    assert stream.tally == Tally(missing=0, repeated=1)


def test_a_bare_cut_may_bear_the_number_of_the_chunk_before_it_and_no_older_one() -> None:
    stream = cutter(slow())
    stream.add(0, samples(1), False, 0)
    stream.add(1, samples(1), False, 0)
    assert stream.add(0, b"", True, 0).utterances == []
    assert len(stream.add(1, b"", True, 0).utterances) == 1
    assert stream.add(2, samples(1), False, 0).refusal is None
    assert stream.tally == Tally(missing=0, repeated=1)


def test_a_stream_that_ends_without_a_word_ends_like_a_cut() -> None:
    stream = cutter(slow())
    stream.add(0, samples(3)[:5], False, 0)
    assert told(stream.end()) == [(0, "manual", "t0", 0, 2)]
    assert stream.end() == []
    (said,) = stream.add(1, samples(2), True, 0).utterances
    assert said.audio == samples(2)


def test_a_clock_that_goes_back_does_not_confuse_it() -> None:
    stream = cutter(slow())
    stream.add(0, samples(1), False, 1_000)
    (said,) = stream.add(1, samples(1), True, 900).utterances
    assert (said.first_ms, said.last_ms) == (1_000, 1_000)


def test_numbers_go_on_where_another_left_off() -> None:
    stream = Cutter(CutLimits(), slow(), Turns(), next_index=41)
    (said,) = stream.add(0, samples(1), True, 0).utterances
    assert (said.index, stream.next_index) == (41, 42)


@pytest.mark.parametrize(
    "limits", [CutLimits(max_bytes=1_277), CutLimits(max_duration_ms=19)], ids=["bytes", "duration"]
)
def test_limits_into_which_nothing_fits_are_refused(limits: CutLimits) -> None:
    with pytest.raises(ValueError, match="not one sample or packet fits"):
        Cutter(limits, Opus(), Turns())
    Cutter(CutLimits(max_bytes=1_278, max_duration_ms=20), Opus(), Turns())


def test_ten_seconds_of_ordinary_sound_are_one_utterance() -> None:
    """16 kHz: 320 000 bytes, and 441 000 samples of 44.1 kHz stereo are four bytes each."""
    for codec, size in ((Pcm16(), 320_000), (Pcm16(44_100, 2), 1_764_000)):
        stream = Cutter(CutLimits(), codec, Turns())
        first, *rest = stream.add(0, bytes(size + codec.largest), True, 0).utterances
        assert (len(first.audio), first.duration_ms, first.is_max_duration_triggered) == (size, 10_000, True)
        assert [len(said.audio) for said in rest] == [codec.largest]
