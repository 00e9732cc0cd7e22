"""What a caller asks for beside languages and audio, over HTTP and in a session, and what that means to the flows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from lingua_scheduler.core.needs import USUAL
from lingua_scheduler.core.wanted import MAX_NAMED, USUAL_WANTED, Wanted
from lingua_scheduler.protocol.fields import Id, Labels, Message, TimeoutMs, WaitMs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingua_scheduler.core.limits import Limits


class Options(Message, frozen=True, kw_only=True):
    """How a job wants to be placed."""

    require_tts: bool | None = None
    preferred_node_id: Id | None = None
    strict: bool | None = None
    exclude_node_ids: Annotated[list[Id], Meta(max_length=MAX_NAMED)] | None = None
    labels: Labels | None = None
    policy: Literal["random", "spread", "sticky_pool", "least_loaded"] | None = None
    bind_key: Id | None = None
    wait_ms: WaitMs | None = None
    timeout_ms: TimeoutMs | None = None


class Pipeline(Message, frozen=True, kw_only=True):
    """Which services a job uses."""

    use_asr: bool | None = None
    use_nmt: bool | None = None
    use_tts: bool | None = None
    use_semantic: bool | None = None
    use_tone: bool | None = None


Wishes = TypeVar("Wishes", Options, Pipeline)


def combined(own: Wishes | None, general: Wishes | None) -> Wishes | None:
    """What an utterance asks for: field by field its own word, else that of its session."""
    if own is None or general is None:
        return own or general
    said = {name: value for name, value in msgspec.structs.asdict(own).items() if value is not None}
    return msgspec.structs.replace(general, **said)


def services_of(pipeline: Pipeline | None = None, options: Options | None = None) -> tuple[str, ...]:
    """The services that a job needs: asr, nmt and semantic unless switched off, tts and tone if switched on."""
    needs_tts = options is not None and options.require_tts is True
    if pipeline is None:
        return (*USUAL, "tts") if needs_tts else USUAL
    needed = {
        "asr": pipeline.use_asr is not False,
        "nmt": pipeline.use_nmt is not False,
        "semantic": pipeline.use_semantic is not False,
        "tone": pipeline.use_tone is True,
        "tts": pipeline.use_tts is True or needs_tts,
    }
    return tuple(name for name, needs in needed.items() if needs)


@functools.lru_cache(maxsize=64)
def full_pipeline(services: tuple[str, ...]) -> Pipeline:
    """The pipeline that a node is told, with nothing left out."""
    return Pipeline(
        use_asr="asr" in services,
        use_nmt="nmt" in services,
        use_tts="tts" in services,
        use_semantic="semantic" in services,
        use_tone="tone" in services,
    )


def wanted_of(
    options: Options | None,
    services: Sequence[str] = USUAL_WANTED.services,
    *,
    two_way: bool = False,
    wait_ms: int = 0,
) -> Wanted:
    """What the flows look for. `wait_ms` is for those who say nothing of it."""
    if options is None and services == USUAL and not (two_way or wait_ms):
        return USUAL_WANTED
    said = options or Options()
    wanted = Wanted(
        services=services,
        preferred_node_id=said.preferred_node_id or "",
        strict=said.strict is True,
        exclude_node_ids=said.exclude_node_ids or (),
        labels=said.labels or {},
        policy=said.policy or "",
        two_way=two_way,
        wait_ms=wait_ms if said.wait_ms is None else said.wait_ms,
    )
    return USUAL_WANTED if wanted == USUAL_WANTED else wanted


def limits_of(options: Options | None, limits: Limits) -> Limits:
    """How long the job may take: as the settings say, but for what the caller says."""
    if options is None or options.timeout_ms is None:
        return limits
    return msgspec.structs.replace(limits, timeout_ms=options.timeout_ms)
