"""The settings of an instance, as an operator sees them."""

from __future__ import annotations

from lingua_scheduler.protocol.fields import Message


class SettingAnswer(Message, frozen=True, kw_only=True):
    """One setting; `origin` is where its value came from: a file, the environment, a flag, or `default`."""

    key: str
    value: str | int | float | bool | list[str] | dict[str, str] | None
    origin: str


class ConfigAnswer(Message, frozen=True, kw_only=True):
    """Every setting of one instance."""

    instance_id: str
    settings: list[SettingAnswer]
