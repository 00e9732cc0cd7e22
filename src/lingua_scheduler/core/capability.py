"""What a node says it can do, checked and put into the one form that the flows compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lingua_scheduler.core.ids import check_bool, check_text
from lingua_scheduler.core.language import UnknownLanguage, reduce_language
from lingua_scheduler.core.refusal import Invalid

MAX_LANGUAGES: Final = 64
MAX_PAIRS: Final = 1024
MAX_LABELS: Final = 32
SERVICES: Final = ("asr", "nmt", "tts", "semantic", "tone")

Word = dict[str, object]


_NO_REPAIR: Final = "semantic_langs is empty; semantic repair is what a node is chosen by"


def _wrong(detail: str) -> Invalid:
    return Invalid(detail, "INVALID_CAPABILITY_SCHEMA")


class _Reader:
    """Reads a node's word. A lenient one drops unknown languages with a warning, as field nodes need it."""

    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self.warnings: list[str] = []

    def language(self, field: str, tag: object) -> str | None:
        if not isinstance(tag, str):
            raise Invalid(f"{field} must be a list of language tags")
        try:
            return reduce_language(tag)
        except UnknownLanguage as unknown:
            if not self._lenient:
                raise Invalid(f"{field}: {unknown}") from None
            self.warnings.append(f"{field}: {unknown}; dropped")
            return None

    def languages(self, field: str, tags: object) -> list[str]:
        if not isinstance(tags, Sequence) or isinstance(tags, str | bytes):
            raise Invalid(f"{field} must be a list of language tags")
        if len(tags) > MAX_LANGUAGES:
            raise _wrong(f"{field} has {len(tags)} languages; {MAX_LANGUAGES} are the most")
        return sorted({language for tag in tags if (language := self.language(field, tag)) is not None})

    def pairs(self, pairs: object) -> list[str] | bool:
        if pairs == "any":
            return True
        if not isinstance(pairs, Sequence) or isinstance(pairs, str | bytes):
            raise Invalid('nmt_pairs must be a list of [src, tgt], or "any"')
        if len(pairs) > MAX_PAIRS:
            raise _wrong(f"nmt_pairs has {len(pairs)} pairs; {MAX_PAIRS} are the most")
        found: set[str] = set()
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:  # noqa: PLR2004
                raise Invalid("nmt_pairs must be a list of [src, tgt]")
            ends = [tag if tag == "*" else self.language("nmt_pairs", tag) for tag in pair]
            if None not in ends:
                found.add(":".join(str(end) for end in ends))
        return sorted(found)


def _services(value: object) -> list[tuple[str, bool]]:
    """Which services are ready. Unknown names and nulls are left out."""
    if not isinstance(value, Mapping):
        raise Invalid(f"services must map some of {', '.join(SERVICES)} to true or false")
    return sorted(
        (name, check_bool(f"services.{name}", ready))
        for name, ready in value.items()
        if name in SERVICES and ready is not None
    )


def check_labels(value: object) -> list[tuple[str, str]]:
    """Labels as the flows compare them."""
    if not isinstance(value, Mapping) or len(value) > MAX_LABELS:
        raise Invalid(f"labels must map at most {MAX_LABELS} names to texts")
    return sorted(
        (check_text("a label's name", name, 64), check_text(f"labels.{name}", text, 128))
        for name, text in value.items()
    )


def capability(
    *,
    semantic_langs: object = None,
    asr_langs: object = None,
    nmt_pairs: object = None,
    tts_langs: object = None,
    services: object = None,
    labels: object = None,
    accept_public_jobs: object = None,
    lenient: bool = False,
) -> tuple[Word, list[str]]:
    """A node's word in canonical form, and warnings. What is None is left out: undeclared, or as it was.

    It is `legacy` as long as it names its semantic languages as field nodes do.
    """
    reader = _Reader(check_bool("lenient", lenient))
    word: Word = {}
    if semantic_langs is not None:
        word["semantic"] = reader.languages("semantic_langs", semantic_langs)
        if not word["semantic"] and not lenient:
            raise _wrong(_NO_REPAIR)
        word["legacy"] = lenient
    if asr_langs is not None:
        word["asr"] = reader.languages("asr_langs", asr_langs)
    if nmt_pairs is not None:
        word["nmt"] = reader.pairs(nmt_pairs)
    if tts_langs is not None:
        word["tts"] = reader.languages("tts_langs", tts_langs)
    if services is not None:
        word["services"] = _services(services)
    if labels is not None:
        word["labels"] = check_labels(labels)
    if accept_public_jobs is not None:
        word["public"] = check_bool("accept_public_jobs", accept_public_jobs)
    return word, reader.warnings


def check_joining(word: Word, semantic_langs: Sequence[str]) -> None:
    """A node that joins names languages with semantic repair, unless it says that this is not ready yet."""
    services = word.get("services")
    if not semantic_langs and not (isinstance(services, list) and ("semantic", False) in services):
        raise _wrong(_NO_REPAIR)


#: What a node is told that would be one kind of node too many.
CROWDED: Final = "no pool: the cell has as many kinds of nodes as it may"


def why_no_pool(word: Word) -> str:
    """The part that is missing when a node's word puts it into no pool; "" if it is in what was said before."""
    semantic, asr, nmt, tts, services = (word.get(name) for name in ("semantic", "asr", "nmt", "tts", "services"))
    repaired = set(semantic) if isinstance(semantic, list) else set()
    reasons = {
        "the service semantic is not ready": word.get("legacy") is not False
        and isinstance(services, list)
        and ("semantic", False) in services,
        "no language with semantic repair": semantic == [],
        "no language has both semantic repair and asr": bool(repaired)
        and isinstance(asr, list)
        and not repaired & set(asr),
        "nmt_pairs is empty": nmt == [],
        "no nmt pair begins with a language that has semantic repair and asr": isinstance(nmt, list),
        "nmt_pairs is not declared and tts_langs is empty": tts == [],
    }
    return next((f"no pool: {reason}" for reason, holds in reasons.items() if holds), "")


def served_pairs(word: Word) -> list[str]:
    """The directed pairs that the whole word of a node makes it serve, sorted; `src:*` is every target."""
    semantic, asr, nmt, tts, services = (word.get(name) for name in ("semantic", "asr", "nmt", "tts", "services"))
    if not isinstance(semantic, list) or (word.get("legacy") and ("semantic", False) in (services or ())):  # type: ignore[operator] # a list
        return []
    sources = [src for src in semantic if not isinstance(asr, list) or src in asr]
    if nmt is True:
        return sorted(f"{src}:*" for src in sources)
    found = set()
    if isinstance(nmt, list):
        for begins, _, ends in (pair.partition(":") for pair in nmt):
            found |= {f"{src}:{ends}" for src in sources if begins in {"*", src}}
    else:
        found = {f"{src}:{tgt}" for src in sources for tgt in (tts if isinstance(tts, list) else semantic)}
    return sorted(pair for pair in found if pair.endswith(":*") or f"{pair.partition(':')[0]}:*" not in found)
