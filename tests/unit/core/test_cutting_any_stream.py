"""Whatever the sound and however it comes in: nothing is lost, nothing is too long, and every cut has its reason."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lingua_scheduler.core.audio import Codec, Opus, Pcm16
from lingua_scheduler.core.cutting import Cut, CutLimits, Cutter, Cutting
from tests.support.streams import Turns, packet, pieces

if TYPE_CHECKING:
    from lingua_scheduler.core.cutting import Utterance


class Sound(msgspec.Struct, frozen=True):
    """A kind of sound: its codec, a stream of it, and what of an utterance is the stream's."""

    name: str
    codec: Callable[[], Codec]
    stream: bytes
    #: What each unit of the stream is, in order.
    units: list[bytes]
    unit_ms: int
    largest: int


def _pcm(number: int, salt: int) -> Sound:
    units = [((place * 31 + salt) % 65_536).to_bytes(2, "little") for place in range(number)]
    return Sound("pcm16", lambda: Pcm16(1_000), b"".join(units), units, 1, 2)


def _opus(number: int, salt: int) -> Sound:
    units = [packet((place * salt) % 61 + 1, place % 256) for place in range(number)]
    return Sound("opus", Opus, b"".join(units), units, 20, 1_278)


sounds = st.builds(
    lambda kind, number, salt: kind(number, salt),
    st.sampled_from([_pcm, _opus]),
    st.integers(1, 200),
    st.integers(0, 500),
)

#: How many units last as long as an utterance may, how many bytes more than the least it may have, and the pause.
bounds = st.tuples(st.integers(1, 60), st.integers(0, 150), st.integers(60, 300))


def _limits(sound: Sound, drawn: tuple[int, int, int]) -> CutLimits:
    units, room, pause_ms = drawn
    return CutLimits(pause_ms, units * sound.unit_ms, sound.largest + room, full_ms=50)


def _check(sound: Sound, limits: CutLimits, said: list[Utterance]) -> None:
    """What holds for any utterances."""
    assert b"".join(each.audio for each in said) == b"".join(sound.units)
    assert [each.index for each in said] == list(range(len(said)))
    for each in said:
        assert each.audio, "an utterance has audio"
        assert len(each.audio) <= limits.max_bytes
        assert each.duration_ms <= limits.max_duration_ms
        assert each.first_ms <= each.last_ms
        flags = (each.is_manual_cut, each.is_timeout_triggered, each.is_max_duration_triggered)
        assert sum(flags) == (0 if each.cut is Cut.max_length else 1)
        if each.is_max_duration_triggered:
            assert each.duration_ms == limits.max_duration_ms // sound.unit_ms * sound.unit_ms
    _check_turns(said)


def _check_turns(said: list[Utterance]) -> None:
    """A turn is what lies between two cuts that end one, its pieces counted."""
    for before, after in pairwise(said):
        if before.cut in (Cut.manual, Cut.timeout):
            assert (after.turn_id, after.piece) not in {(each.turn_id, each.piece) for each in said[: after.index]}
            assert after.turn_id != before.turn_id
            assert after.piece == 0
        elif after.turn_id == before.turn_id:
            assert after.piece == before.piece + 1


@settings(max_examples=400)
@given(sounds, bounds, st.lists(st.integers(0, 2_000), max_size=12))
def test_the_same_stream_is_cut_at_the_same_places_however_it_comes_in(
    sound: Sound, drawn: tuple[int, int, int], places: list[int]
) -> None:
    limits = _limits(sound, drawn)
    whole = Cutter(limits, sound.codec(), Turns()).add(0, sound.stream, True, 0)
    assert whole.refusal is None
    stream = Cutter(limits, sound.codec(), Turns())
    said = []
    for seq, chunk in enumerate(pieces(sound.stream, places)):
        added = stream.add(seq, chunk, False, 0)
        assert added.refusal is None
        said += added.utterances
    said += stream.add(99, b"", True, 0).utterances
    # But for the chunk in which each of them begins.
    assert [msgspec.structs.replace(one, before=-1) for one in said] == whole.utterances
    _check(sound, limits, said)
    assert {each.turn_id for each in said} == {"t0"}
    assert [each.is_manual_cut for each in said] == [False] * (len(said) - 1) + [True]
    for each, after in pairwise(said):
        room = limits.max_duration_ms - each.duration_ms
        first = sound.units[len(sound.units) - _units_from(sound, said, after)]
        fits = room >= sound.unit_ms
        assert each.is_max_duration_triggered is not fits
        assert not fits or len(each.audio) + len(first) > limits.max_bytes
    event(f"{sound.name}: {'one' if len(said) == 1 else said[0].cut.value}")


def _units_from(sound: Sound, said: list[Utterance], start: Utterance) -> int:
    """How many units this utterance and all after it have."""
    return sum(each.duration_ms // sound.unit_ms for each in said[start.index :])


steps = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["", "", "tick", "again"])), max_size=12)


@settings(max_examples=400)
@given(sounds, bounds, st.lists(st.integers(0, 2_000), max_size=12), steps)
def test_whatever_happens_on_the_way_every_sample_is_in_one_utterance_and_every_cut_has_its_reason(
    sound: Sound, drawn: tuple[int, int, int], places: list[int], drawn_steps: list[tuple[int, str]]
) -> None:
    limits = _limits(sound, drawn)
    stream = Cutter(limits, sound.codec(), Turns())
    said: list[Utterance] = []
    now = 0
    for seq, chunk in enumerate(pieces(sound.stream, places)):
        wait, step = drawn_steps[seq] if seq < len(drawn_steps) else (0, "")
        now += wait
        due = stream.due_ms
        if step == "tick" or (due is not None and due <= now and step == "again"):
            cut = stream.tick(now)
            assert not cut or (due is not None and due <= now)
            assert all(each.cut in (Cut.timeout, Cut.max_duration) for each in cut)
            said += cut
        if step == "again" and seq > 1:
            again = stream.add(seq - 1, chunk, True, now)
            assert again.utterances == []
            assert again.refusal is not None
            assert "dropped" in again.refusal.detail
        added = stream.add(seq, chunk, False, now)
        assert added.refusal is None
        for each in added.utterances:
            if each.is_timeout_triggered:
                assert now - each.last_ms >= limits.pause_ms
        said += added.utterances
        assert stream.due_ms is None or now < stream.due_ms
    said += stream.tick(now + 50)
    said += stream.tick(now + limits.pause_ms)
    assert stream.due_ms is None
    _check(sound, limits, said)
    assert said[-1].cut in (Cut.timeout, Cut.max_duration)
    event(f"{sound.name}: {len({each.turn_id for each in said})} turns")


def _elsewhere(stream: Cutter, limits: CutLimits, sound: Sound, turns: Turns) -> Cutter:
    """The same stream, from what is saved of it."""
    saved, audio = msgspec.msgpack.encode(stream.save()), bytes(stream.open_audio)
    other = Cutter(limits, sound.codec(), turns, next_index=stream.next_index)
    other.load(msgspec.msgpack.decode(saved, type=Cutting), audio)
    assert other.save() == stream.save()
    assert (other.due_ms, other.last_seq, other.open_audio) == (stream.due_ms, stream.last_seq, stream.open_audio)
    return other


@settings(max_examples=200)
@given(
    st.builds(lambda kind, number: kind(number, 7), st.sampled_from([_pcm, _opus]), st.integers(1, 200)),
    bounds,
    st.lists(st.integers(0, 2_000), max_size=12),
    st.lists(st.tuples(st.integers(0, 400), st.booleans(), st.booleans()), min_size=13, max_size=13),
)
def test_a_stream_that_goes_on_elsewhere_is_cut_as_if_it_had_stayed(
    sound: Sound, drawn: tuple[int, int, int], places: list[int], steps: list[tuple[int, bool, bool]]
) -> None:
    limits, (turns, others) = _limits(sound, drawn), (Turns(), Turns())
    stays, moves = Cutter(limits, sound.codec(), turns), Cutter(limits, sound.codec(), others)
    now = 0
    for seq, (chunk, (wait, is_final, is_moved)) in enumerate(zip(pieces(sound.stream, places), steps, strict=False)):
        now += wait
        if is_moved:
            moves = _elsewhere(moves, limits, sound, others)
        assert moves.add(seq, chunk, is_final, now) == stays.add(seq, chunk, is_final, now)
    moves = _elsewhere(moves, limits, sound, others)
    assert moves.add(0, b"", True, now) == stays.add(0, b"", True, now)
    assert moves.end() == stays.end()


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.integers(0, 500),
    bounds,
    st.booleans(),
    st.booleans(),
)
def test_the_clients_cuts_are_where_it_made_them(
    parts: list[int], salt: int, drawn: tuple[int, int, int], bare: bool, anew: bool
) -> None:
    """`anew`: the client numbers the chunks of each utterance from 0."""
    sound = _opus(sum(parts), salt)
    limits = _limits(sound, drawn)
    stream = Cutter(limits, sound.codec(), Turns())
    said: list[Utterance] = []
    seq = used = 0
    for part in parts:
        audio = b"".join(sound.units[used : used + part])
        used += part
        first = stream.add(seq, audio[:5], False, 0)
        added = stream.add(seq + 1, audio[5:], not bare, 0)
        last = stream.add(seq + 2, b"", True, 0)
        assert (first.refusal, added.refusal, last.refusal) == (None, None, None)
        new = first.utterances + added.utterances + last.utterances
        assert b"".join(each.audio for each in new) == audio
        assert [each.is_manual_cut for each in new] == [False] * (len(new) - 1) + [True] * bool(new)
        said += new
        seq = 0 if anew else seq + 3
    _check(sound, limits, said)
    assert len({each.turn_id for each in said}) == sum(map(bool, parts))
    assert (stream.tally.missing, stream.tally.repeated) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=80), st.booleans(), st.integers(0, 500))))
def test_no_bytes_in_no_order_break_it_or_make_it_grow(chunks: list[tuple[int, bytes, bool, int]]) -> None:
    for codec in (Opus(), Pcm16(1_000)):
        stream = Cutter(CutLimits(300, 100, 1_300, full_ms=50), codec, Turns())
        now = 0
        for seq, audio, is_final, wait in chunks:
            now += wait
            added = stream.add(seq, audio, is_final, now)
            assert not codec.waiting, "what is whole is in the turn"
            assert all(0 < len(each.audio) <= 1_300 and each.duration_ms <= 100 for each in added.utterances)
        stream.tick(now + 300)
        assert stream.due_ms is None
