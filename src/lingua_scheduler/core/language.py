"""Language tags, reduced to the base language that nodes and jobs are matched by.

Script and region are dropped: they say how a language is written and where, and speech has no spelling. What
is left is the language that Unicode would name: `cmn` is `zh`, `iw` is `he`, `zh-yue` is `yue`.

`langcodes` brings its registry along (CLDR 40), so no `language_data` is needed to tell a language from a
mistake. Measured: 10-30 µs for a new tag, 0.3 µs for one seen before. Its own caches grow by every string
that they are given, so it is only ever handed a code of two or three letters or one of the 26 irregular tags.
"""

from __future__ import annotations

import functools
from typing import Final

from langcodes import Language
from langcodes.data_dicts import MACROLANGUAGES
from langcodes.tag_parser import LanguageTagError, parse_tag

#: The longest tag that RFC 5646 asks everybody to carry.
MAX_TAG_LENGTH: Final = 35

#: Registered, but nothing that anybody can speak: several, none, uncoded.
_NOT_A_LANGUAGE: Final = frozenset({"mul", "zxx", "mis"})


class UnknownLanguage(ValueError):
    """The tag names no language that is registered."""

    def __init__(self, tag: str) -> None:
        shown = tag if len(tag) <= MAX_TAG_LENGTH else tag[:MAX_TAG_LENGTH] + "…"
        super().__init__(f"{shown!r} is not a known language")


def reduce_language(tag: str) -> str:
    """The base language of a BCP-47 tag: `zh-Hans-CN`, `zh_TW` and `cmn` are `zh`; `zh-yue` is `yue`."""
    # Before the cache: a tag of a megabyte is not worth remembering.
    language = _reduce(tag) if len(tag) <= MAX_TAG_LENGTH else None
    if language is None:
        raise UnknownLanguage(tag)
    return language


@functools.lru_cache(maxsize=4096)
def _reduce(tag: str) -> str | None:
    try:
        parts: list[tuple[str, str]] = parse_tag(tag)  # type: ignore[no-untyped-call]  # theirs to annotate
    except LanguageTagError:
        return None
    kind, code = parts[0]
    if kind == "grandfathered":
        return _base(code)
    for kind, value in parts[1:]:
        if kind == "extlang":
            # `zh-yue` is the old way to write `yue`; `zh-fra` is nobody's way to write anything.
            if MACROLANGUAGES.get(value) != code:
                return None
            code = value
    return _base(code) if len(code) in {2, 3} and code.isalpha() else None


def _base(code: str) -> str | None:
    found = Language.get(code).prefer_macrolanguage()
    language = found.language
    if language is None or language in _NOT_A_LANGUAGE or not Language.get(language).is_valid():
        return None
    return language
