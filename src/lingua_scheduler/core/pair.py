"""A directed pair of languages: `zh:en` is not `en:zh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lingua_scheduler.core.language import MAX_TAG_LENGTH, UnknownLanguage, reduce_language

#: What may serve a language when nobody serves it itself. One way only: a `zh` job never goes to `yue`.
_FALLBACK: Final = {"yue": "zh"}


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """From one base language to another, both already reduced."""

    src: str
    tgt: str

    def __str__(self) -> str:
        return f"{self.src}:{self.tgt}"

    @classmethod
    def of(cls, src: str, tgt: str) -> Pair:
        """The pair of two language tags."""
        return cls(reduce_language(src), reduce_language(tgt))

    @classmethod
    def parse(cls, text: str) -> Pair:
        """The pair that `zh-CN:en` names; `UnknownLanguage` if it names none."""
        if len(text) > 2 * MAX_TAG_LENGTH + 1:
            raise UnknownLanguage(text)
        src, _, tgt = text.partition(":")
        return cls.of(src, tgt)

    def fallback(self) -> Pair | None:
        """The pair to use when no live node is in this one's pool."""
        other = Pair(_FALLBACK.get(self.src, self.src), _FALLBACK.get(self.tgt, self.tgt))
        return None if other == self else other
