"""The settings of the instance that is asked, as they are in force there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lingua_scheduler.config.load import shown
from lingua_scheduler.front.web import Route
from lingua_scheduler.protocol.settings import ConfigAnswer, SettingAnswer

if TYPE_CHECKING:
    from lingua_scheduler.front.desk import Desk
    from lingua_scheduler.front.web import Request


async def show_config(desk: Desk, _request: Request) -> ConfigAnswer:
    """Every setting, and where its value came from. What is secret is only said to be set."""
    return ConfigAnswer(
        instance_id=desk.instance_id,
        settings=[
            SettingAnswer(key=key, value=value, origin=desk.origins.get(key, "default"))
            for key, value in shown(desk.settings).items()
        ],
    )


ROUTES: Final = (
    Route(
        "GET",
        "/v1/config",
        "admin",
        show_config,
        "The settings of this instance, and where each came from.",
        answers=ConfigAnswer,
        tag="fleet",
        asks_engine=False,
    ),
)
