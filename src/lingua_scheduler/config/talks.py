"""Settings of sessions: how what is said is cut, and how long somebody waits for it."""

from __future__ import annotations

from pydantic import Field

from lingua_scheduler.config.section import DAY, HOUR, MINUTE, Section


class Sessions(Section):
    """Those who speak, and what they are owed."""

    pause_ms: int = Field(
        default=3_000, ge=100, le=MINUTE, description="Without new audio for so long, an utterance is over."
    )
    max_duration_ms: int = Field(
        default=10_000, ge=1_000, le=10 * MINUTE, description="More audio than this is cut, and its turn goes on."
    )
    max_utterance_bytes: int = Field(
        default=2_097_152, ge=4_096, le=2_097_152, description="How large the audio of an utterance may be."
    )
    wait_ms: int = Field(
        default=2_000, ge=0, le=MINUTE, description="How long an utterance may wait while every capable node is full."
    )
    gap_ms: int = Field(
        default=10_000,
        ge=100,
        le=HOUR,
        description="How long answers wait for an earlier one before it is announced as missing and cancelled.",
    )
    resume_window_ms: int = Field(
        default=120_000,
        ge=1_000,
        le=DAY,
        description="How long a client that lost its socket may come back and get what it missed.",
    )
    keep_every_ms: int = Field(
        default=1_000,
        ge=50,
        le=MINUTE,
        description="Audio of a stream that is not cut yet is saved so soon at the latest: if an instance is killed, "
        "a client that says nothing again loses no more than this.",
    )
    opening_ms: int = Field(
        default=10_000, ge=100, le=10 * MINUTE, description="How long a socket may be open without a `session_init`."
    )
    idle_ms: int = Field(
        default=300_000,
        ge=1_000,
        le=DAY,
        description="A client that says nothing for so long, and waits for nothing, is sent away.",
    )
