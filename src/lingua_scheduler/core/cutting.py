"""Cutting a stream of audio into utterances. Time is an argument; nothing here waits.

| cut | when | what it ends |
|---|---|---|
| manual | the client says so | the turn |
| timeout | no new audio for `pause_ms` | the turn |
| max duration | more than `max_duration_ms` of audio, or just that and nothing after it for `full_ms` | a piece of it |
| max length | more bytes than `max_bytes`: a guard, it has no flag on the wire | a piece of it |

The pieces of a turn have one `turn_id`. An utterance that is just full waits a moment for what comes next: if that is
the client's own cut, it is the end of the turn and says so, and no node waits for a piece that never comes. A cut
without audio makes no utterance, but ends the turn.

**Chunks** come in the order of `seq`, whatever it begins with. One that is not above the last is not new and is
dropped, so what is sent again after a reconnect is heard once; that is said once, for all that are dropped in a row.
A jump is accepted and counted: what is missing will not come. After the client's own cut, or a pause, `seq` may begin
anew where it first began. A bare cut may bear the `seq` of the chunk before it.

**Elsewhere** a stream goes on from `Cutting`, with the audio of its open piece beside it. What comes first after its
client was away and is not the next chunk is told so: what is missing was lost.

**What is not whole** (half a sample, half a packet) waits for its other half, over a pause too: whoever splits there
sends bytes as they come. At the client's own cut or after a jump the other half will not come: it is dropped, and said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from lingua_scheduler.core.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lingua_scheduler.core.audio import Codec


class CutLimits(msgspec.Struct, frozen=True):
    """When a stream is cut. The defaults are the product's."""

    pause_ms: int = 3_000
    max_duration_ms: int = 10_000
    max_bytes: int = 2 * 1024 * 1024
    #: How long an utterance that is just full waits to see whether that was its end.
    full_ms: int = 250


class Cut(Enum):
    """Why an utterance ends where it ends: exactly one reason."""

    manual = "manual"
    timeout = "timeout"
    max_duration = "max_duration"
    max_length = "max_length"


class Utterance(msgspec.Struct, frozen=True):
    """One piece of audio that becomes one job."""

    index: int
    audio: bytes
    cut: Cut
    turn_id: str
    #: Which piece of its turn it is, from 0. The only piece of a turn needs no binding to a node.
    piece: int
    duration_ms: int
    #: When its first and its last audio came.
    first_ms: int
    last_ms: int
    #: The chunk before the one in which it begins.
    before: int = -1

    @property
    def is_manual_cut(self) -> bool:
        """The client ended it."""
        return self.cut is Cut.manual

    @property
    def is_timeout_triggered(self) -> bool:
        """A pause ended it."""
        return self.cut is Cut.timeout

    @property
    def is_max_duration_triggered(self) -> bool:
        """It was too long, and its turn goes on."""
        return self.cut is Cut.max_duration


class Added(msgspec.Struct, frozen=True):
    """What came of a chunk: utterances that are whole now, and what was wrong with its audio."""

    utterances: list[Utterance]
    refusal: Refusal | None = None


@dataclass(slots=True)
class Tally:
    """What a stream lost on its way, in chunks."""

    missing: int = 0
    repeated: int = 0


class Sequence(msgspec.Struct):
    """Which chunk was the first, which the last, and whether the client made a cut there, or a pause."""

    first: int
    last: int
    ended: bool = False
    paused: bool = False

    def begins_anew(self, seq: int) -> bool:
        """After a pause also where the first was the only one: nobody sends a chunk again so late."""
        return seq == self.first and (self.paused or (self.ended and seq < self.last))


class Turn(msgspec.Struct, frozen=True):
    """A turn that goes on, but for the audio of its open piece, which has so many units and bytes."""

    turn_id: str
    first_ms: int
    last_ms: int
    piece: int
    units: int
    size: int
    #: The chunk before the one in which its open piece begins.
    before: int = -1


class Cutting(msgspec.Struct, frozen=True):
    """How far a stream has come, but for the audio of its open piece. `torn`: what is not whole."""

    sequence: Sequence | None = None
    turn: Turn | None = None
    torn: bytes = b""


@dataclass(slots=True)
class _Turn:
    """A turn that goes on, with its open piece, which may be empty."""

    turn_id: str
    first_ms: int
    last_ms: int
    piece: int = 0
    units: int = 0
    audio: bytearray = field(default_factory=bytearray)
    before: int = -1

    def add(self, seq: int, audio: bytes, units: int, now_ms: int) -> None:
        if not self.units:
            self.first_ms, self.before = now_ms, seq - 1
        self.audio += audio
        self.units += units
        self.last_ms = max(self.last_ms, now_ms)

    def save(self) -> Turn:
        return Turn(self.turn_id, self.first_ms, self.last_ms, self.piece, self.units, len(self.audio), self.before)

    def next_piece(self) -> None:
        self.piece += 1
        self.units = 0
        self.audio = bytearray()


class Cutter:
    """One stream of audio, cut into utterances. Ask it again at `due_ms`."""

    def __init__(self, limits: CutLimits, codec: Codec, new_turn_id: Callable[[], str], *, next_index: int = 0) -> None:
        if limits.max_bytes < codec.largest or codec.units_in(limits.max_duration_ms) < 1:
            raise ValueError("not one sample or packet fits these limits")
        self._limits = limits
        self._codec = codec
        self._new_turn_id = new_turn_id
        self._sequence: Sequence | None = None
        self._turn: _Turn | None = None
        self._is_dropping = False
        self._was_away = False
        self.next_index = next_index
        self.tally = Tally()

    # Going on elsewhere.

    def save(self) -> Cutting:
        """How far it has come."""
        return Cutting(self._sequence, None if self._turn is None else self._turn.save(), self._codec.torn)

    @property
    def last_seq(self) -> int:
        """The last chunk that was heard; -1: there was none."""
        return -1 if self._sequence is None else self._sequence.last

    @property
    def open_audio(self) -> bytes | bytearray:
        """That of the open piece."""
        return b"" if self._turn is None else self._turn.audio

    def load(self, saved: Cutting, audio: bytes) -> None:
        """Go on with a stream that had come so far, and has this audio in its open piece."""
        self._sequence, turn = saved.sequence, saved.turn
        if turn is not None:
            opened = bytearray(audio)
            about = (turn.turn_id, turn.first_ms, turn.last_ms, turn.piece, turn.units)
            self._turn = _Turn(*about, opened, turn.before)
        self._codec.put(saved.torn)

    def came_back(self) -> None:
        """The client was away: what it goes on with may not be the next chunk."""
        self._was_away = True

    # Hearing.

    @property
    def due_ms(self) -> int | None:
        """When time alone will cut or end the turn; None while there is no turn."""
        if self._turn is None:
            return None
        return self._turn.last_ms + (self._limits.full_ms if self._is_full(self._turn) else self._limits.pause_ms)

    def _is_full(self, turn: _Turn) -> bool:
        return turn.units == self._codec.units_in(self._limits.max_duration_ms)

    def add(self, seq: int, audio: bytes, is_final: bool, now_ms: int) -> Added:
        """A chunk came. A pause that is over by now is cut first."""
        utterances = self.tick(now_ms)
        missing = self._missing_before(seq, bare_cut=is_final and not audio)
        if missing is None:
            return Added(utterances, self._drop(seq))
        self._is_dropping = False
        self.tally.missing += missing
        wrong = [self._codec.end()] if missing or self._begins_anew(seq) else []
        if missing and self._was_away:
            wrong.append(f"{missing} before it were not heard")
        self._was_away = False
        wrong.append(self._codec.put(audio))
        utterances += self._fill(seq, now_ms)
        if is_final:
            wrong.append(self._codec.end())
            utterances += self._end_turn(Cut.manual)
        self._sequence = Sequence(self._sequence.first if self._sequence else seq, seq, is_final)
        return Added(utterances, _refusal(seq, wrong))

    def _drop(self, seq: int) -> Refusal | None:
        """A chunk that is not new. The first of them is told so."""
        self.tally.repeated += 1
        is_told, self._is_dropping = self._is_dropping, True
        last = self._sequence.last if self._sequence else seq
        return None if is_told else _refusal(seq, [f"dropped, for it is not above {last}, which was heard"])

    def _begins_anew(self, seq: int) -> bool:
        return self._sequence is not None and self._sequence.begins_anew(seq)

    def _missing_before(self, seq: int, *, bare_cut: bool) -> int | None:
        """How many chunks are missing before this one; None if it is none that we wait for."""
        known = self._sequence
        if known is None or self._begins_anew(seq) or (bare_cut and seq == known.last):
            return 0
        return seq - known.last - 1 if seq > known.last else None

    def tick(self, now_ms: int) -> list[Utterance]:
        """Time has passed: what is cut by that alone."""
        due_ms = self.due_ms
        if self._turn is None or due_ms is None or now_ms < due_ms:
            return []
        if self._is_full(self._turn):
            return [self._cut(self._turn, Cut.max_duration), *self.tick(now_ms)]
        if self._sequence is not None:
            self._sequence.paused = True
        return list(self._end_turn(Cut.timeout))

    def end(self) -> list[Utterance]:
        """No more audio will come: what is there is the last utterance, as if the client had cut it."""
        self._codec.end()
        return list(self._end_turn(Cut.manual))

    def _fill(self, seq: int, now_ms: int) -> Iterator[Utterance]:
        """Put what is whole into the turn, and cut it as often as it is too much."""
        while self._codec.waiting:
            turn = self._turn = self._turn or _Turn(self._new_turn_id(), now_ms, now_ms)
            units = self._codec.units_in(self._limits.max_duration_ms) - turn.units
            size = self._limits.max_bytes - len(turn.audio)
            audio, taken = self._codec.take(units, size)
            if taken:
                turn.add(seq, audio, taken, now_ms)
            else:
                yield self._cut(turn, Cut.max_length if units else Cut.max_duration)

    def _end_turn(self, cut: Cut) -> Iterator[Utterance]:
        """The turn is over; its last piece is an utterance if it has audio."""
        turn, self._turn = self._turn, None
        if turn is not None and turn.units:
            yield self._cut(turn, cut)

    def _cut(self, turn: _Turn, cut: Cut) -> Utterance:
        """The open piece as an utterance."""
        utterance = Utterance(
            index=self.next_index,
            audio=bytes(turn.audio),
            cut=cut,
            turn_id=turn.turn_id,
            piece=turn.piece,
            duration_ms=self._codec.ms_of(turn.units),
            first_ms=turn.first_ms,
            last_ms=turn.last_ms,
            before=turn.before,
        )
        self.next_index += 1
        turn.next_piece()
        return utterance


def _refusal(seq: int, wrong: list[str]) -> Refusal | None:
    """What was wrong with a chunk, in one sentence."""
    faults = [words for words in wrong if words]
    return Refusal("INVALID_MESSAGE", f"audio_chunk {seq}: {'; '.join(faults)}") if faults else None
